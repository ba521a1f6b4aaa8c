"""Ranks that raise, die or do not come."""

from __future__ import annotations

from harness.verdict import Judge

from .program import (
    ar,
    barrier,
    clean,
    compute,
    ends,
    fails,
    only,
    program,
    raises,
    records,
    verdict,
)


def test_an_exception_before_the_barrier() -> None:
    """R21, F01: the exception is the cause; who waits for it, and in what, follows."""
    found = only(program([raises("ValueError", "bad row", "data.py:12")], [barrier("t.py:5")]))
    assert (found.kind, found.ranks, found.op, found.index) == ("rank_raised", (0,), "barrier", 1)
    assert found.summary == (
        "rank 0 raised ValueError: bad row at data.py:12; rank 1 waits for it in barrier(), "
        "call 1 of world [0, 1]"
    )
    assert clean(program([barrier("t.py:5")], [barrier("t.py:5")]))


def test_an_assertion_between_two_collectives() -> None:
    """R06: rank 1 raised after call 1, rank 0 waits in call 2."""
    first, grad = ar("t.py:4", "MAX"), ar("t.py:7 [i=0]")
    found = only(program([first, grad], [first, raises("AssertionError", "n <= have", "t.py:5")]))
    assert (found.kind, found.ranks, found.index) == ("rank_raised", (1,), 2)


def test_errors_that_follow_an_exception() -> None:
    """F06: the innocent rank's broken connection is told after the first cause."""
    lost = raises("RuntimeError", "Connection closed by peer", "t.py:5", inside=True)
    found = only(
        program(
            [barrier("t.py:5"), fails("RuntimeError", "Connection closed by peer"), lost],
            [raises("ValueError", "bad", "t.py:3")],
        )
    )
    assert (found.kind, found.ranks) == ("rank_raised", (1,))
    assert len(found.secondary) == 1


def test_a_rank_that_raises_alone_at_the_end() -> None:
    """F04: an assertion after the last collective, nobody waits."""
    run = program([ar("t.py:3")], [ar("t.py:3"), raises("AssertionError", "1 == 2", "t.py:5")])
    found = only(run)
    assert (found.kind, found.ranks) == ("rank_raised", (1,))
    assert found.summary == "rank 1 raised AssertionError: 1 == 2 at t.py:5"


def test_all_ranks_raise_the_same() -> None:
    """F51: one finding for all of them."""
    error = raises("ValueError", "bad", "t.py:3")
    found = only(program([error], [error], [error]))
    assert (found.kind, found.ranks) == ("rank_raised", (0, 1, 2))
    assert found.summary.startswith("ranks 0, 1, 2 raised ValueError: bad")


def test_an_argument_that_torch_refuses() -> None:
    """R14, B11: the rank that is not in the group; no call was made."""
    message = "Global rank 1 is not part of group <ProcessGroup>"
    groups = {"B": (1, 3)}
    mine = ar("t.py:4", group="B")
    error = raises("ValueError", message, "t.py:4")
    found = only(program([error], [mine], [error], [mine], groups=groups))
    assert (found.kind, found.ranks) == ("rank_raised", (0, 2))
    assert any("group_src" in hint for hint in found.hints)


def test_a_rank_raises_while_the_others_go_on() -> None:
    """No proof before another waits for it or all have ended."""
    assert verdict(program([raises("ValueError", "bad", "t.py:3")], [compute()])) == []


def test_a_skip_long_before_the_exception_is_the_cause() -> None:
    """Rank 1 skipped a call, got wrong data, and raised: the skip came first."""
    steps = [ar(f"t.py:5 [i={i}]") for i in range(4)]
    wrong = raises("AssertionError", "loss is nan", "t.py:8")
    found = only(program(steps, [steps[0], steps[2], steps[3], wrong]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 2)
    assert any("loss is nan" in line for line in found.secondary)


def test_pytest_fail_on_one_rank() -> None:
    """pytest.fail is told as such."""
    found = only(program([ends("failed", "no good", "t.py:3")], [barrier("t.py:5")]))
    assert (found.kind, found.ranks) == ("rank_raised", (0,))
    assert 'called pytest.fail("no good")' in found.summary


def test_a_rank_that_exits() -> None:
    """F02: os._exit on rank 1 while rank 0 waits."""
    found = only(program([ar("t.py:3")], [ends("died", "exit code 3")]))
    assert (found.kind, found.ranks, found.index) == ("rank_died", (1,), 1)
    assert found.summary == (
        "rank 1 died (exit code 3); rank 0 waits for it in all_reduce(SUM, float32[3]), "
        "call 1 of world [0, 1]"
    )


def test_a_death_counts_although_nobody_waits() -> None:
    """All the others are fine, also rank 0: the run failed all the same."""
    found = only(program([ar("t.py:3")], [ar("t.py:3"), ends("died", "SIGSEGV")]))
    assert (found.kind, found.ranks) == ("rank_died", (1,))


def test_an_error_out_of_a_collective_that_nothing_explains() -> None:
    """The backend refuses the call on every rank: these ranks raised."""
    refused = raises("RuntimeError", "AVG is not supported", "t.py:3", inside=True)
    found = only(program([ar("t.py:3"), refused], [ar("t.py:3"), refused]))
    assert (found.kind, found.ranks) == ("rank_raised", (0, 1))


def test_a_call_that_fails_on_one_rank_only() -> None:
    """Rank 1's own call is refused and it leaves; rank 0 waits in the next one."""
    refused = raises("RuntimeError", "no memory", "t.py:3", inside=True)
    found = only(program([ar("t.py:3"), ar("t.py:4")], [ar("t.py:3"), refused]))
    assert (found.kind, found.ranks, found.index) == ("rank_raised", (1,), 2)
    assert "out of a collective" in found.summary


def test_a_straggler_at_the_deadline() -> None:
    """F05: one rank loops in user code; it is late, and no deadlock is claimed."""
    found = only(
        program(
            [barrier("t.py:5")], [ar("t.py:3", group="solo"), compute()], groups={"solo": (1,)}
        ),
        deadline=True,
    )
    assert (found.kind, found.ranks) == ("straggler", (1,))
    assert "rank 0 waits in barrier() at t.py:5" in found.summary


def test_awaited_ranks_are_those_in_user_code() -> None:
    """The supervisor probes the ranks that blocked ranks wait for, and no others."""
    judge = Judge(3)
    for record in records(program([barrier("t.py:5")], [compute()], [barrier("t.py:5")])):
        judge.add(record)
    assert judge.awaited() == (1,)
    assert not judge.settled()
    assert not judge.fault()


def test_a_second_run_starts_afresh() -> None:
    """After a clean run the sequences are forgotten and groups stay known."""
    judge = Judge(2)
    for record in records(program([ar("t.py:3")], [ar("t.py:3")])):
        judge.add(record)
    assert judge.settled()
    assert judge.findings() == []
    judge.next_run()
    assert not judge.settled()
    for record in records(program([ar("t.py:3"), ar("t.py:4")], [ar("t.py:3")])):
        judge.add(record)
    assert judge.fault()
    assert [(f.kind, f.index) for f in judge.findings()] == [("missing_participant", 2)]


def test_threads_of_a_rank_that_has_ended_can_still_release() -> None:
    """A thread that outlives the function is in user code; no deadlock is claimed."""
    run = program(
        [ar("t.py:3")],
        [ar("t.py:9", group="solo", thread=1), ends("returned", threads=(1,))],
        groups={"solo": (1,)},
    )
    assert verdict(run) == []
