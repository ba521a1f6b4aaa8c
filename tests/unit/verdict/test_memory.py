"""What is kept of a long run: little, and enough."""

from __future__ import annotations

from harness.record import Call, Ended, Finished, Issued, Record, Started
from harness.verdict import Judge

from .program import Step, ar, later, program, records, recv, send, stack

CALLS = 3000


def feed(judge: Judge, found: list[Record]) -> None:
    """Give a judge all records, asking it after each few."""
    for number, record in enumerate(found):
        judge.add(record)
        if number % 16 == 0:
            assert not judge.fault()


def kept(judge: Judge) -> int:
    """How many calls the judge still holds."""
    history = judge._history
    slots = sum(len(log.slots) for log in history.groups.values())
    return slots + sum(len(state.open) for state in history.ranks)


def test_positions_passed_alike_are_forgotten() -> None:
    """A correct run leaves nothing behind but counts."""
    judge = Judge(2)
    steps = [ar(f"t.py:3 [i={i}]") for i in range(CALLS)]
    feed(judge, records(program(steps, steps)))
    assert kept(judge) == 0
    assert judge.findings() == []


def test_positions_from_two_branches_are_kept_for_a_while_only() -> None:
    """Ranks that always come from different lines do not make the judge grow."""
    judge = Judge(2)
    one = [ar(f"t.py:{3 + i % 2} [i={i}]") for i in range(CALLS)]
    two = [ar(f"t.py:{4 - i % 2} [i={i}]") for i in range(CALLS)]
    feed(judge, records(program(one, two)))
    assert kept(judge) <= 1024
    assert judge.findings() == []


def test_works_that_are_never_waited_do_not_pile_up() -> None:
    """Async calls without a wait are let go once all members have made them."""
    judge = Judge(2)
    steps = [later(ar("t.py:3"), f"w{i}") for i in range(CALLS)]
    feed(judge, records(program(steps, steps)))
    assert kept(judge) <= 2 * 1024


def test_messages_are_forgotten_once_paired() -> None:
    """Point-to-point traffic leaves nothing behind."""
    judge = Judge(2)
    out: list[Step] = [send(1, "t.py:3") for _ in range(CALLS)]
    into: list[Step] = [recv(0, "t.py:5") for _ in range(CALLS)]
    feed(judge, records(program(out, into)))
    assert kept(judge) == 0
    boxes = judge._history.streams.boxes.values()
    assert not any(list(box.waiting()) for box in boxes)


def test_a_skip_after_a_long_run_is_found_at_its_number() -> None:
    """Counts survive what is forgotten."""
    steps = [ar(f"t.py:3 [i={i}]") for i in range(CALLS)]
    short = steps[: CALLS - 5] + steps[CALLS - 4 :]
    judge = Judge(2)
    for record in records(program(steps, short)):
        judge.add(record)
    (found,) = judge.findings()
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), CALLS - 4)


def test_records_name_calls_that_were_let_go() -> None:
    """A wait for a work that was forgotten long ago does no harm."""
    judge = Judge(1)
    judge.add(Started(0, 0.0))
    for number in range(5000):
        call = Call(
            0,
            number,
            0,
            "g",
            number,
            "barrier",
            None,
            None,
            None,
            None,
            (),
            (),
            None,
            None,
            True,
            stack("t.py:3"),
            0.0,
        )
        judge.add(call)
        judge.add(Issued(0, number, 0, 0.0))
    for number in range(5000):
        judge.add(Finished(0, number, 0, 1.0))
    judge.add(Ended(0, "returned", 2.0))
    assert judge.fault() is False
    assert judge.findings() == []
