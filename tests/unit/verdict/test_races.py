"""Order left to chance: receives from any source, and threads that share a group."""

from __future__ import annotations

from .program import (
    Program,
    ar,
    barrier,
    clean,
    only,
    program,
    recv,
    send,
    thread_ends,
    verdict,
)


def test_two_messages_that_can_both_be_first() -> None:
    """C10: a warning, since the result may be the same for every order."""
    hub = [recv(None, "t.py:3 [i=0]"), recv(None, "t.py:3 [i=1]")]
    found = only(program(hub, [send(0, "t.py:5")], [send(0, "t.py:5")]))
    assert (found.kind, found.level, found.ranks) == ("message_race", "warning", (0,))
    assert "ranks 1, 2" in found.summary


def test_messages_with_a_barrier_between() -> None:
    """The second sender cannot begin before the first message is received."""
    any_one, end = recv(None, "t.py:3"), barrier("t.py:4")
    hub = [any_one, end, any_one]
    assert clean(program(hub, [send(0, "t.py:5"), end], [end, send(0, "t.py:5")]))
    racing = program(hub, [send(0, "t.py:5"), end], [send(0, "t.py:5"), end])
    assert only(racing).kind == "message_race"


def test_messages_with_a_source_or_a_tag_of_their_own() -> None:
    """Named sources, and streams apart by tag, do not race."""
    hub = [recv(1, "t.py:3"), recv(2, "t.py:4")]
    assert clean(program(hub, [send(0, "t.py:5")], [send(0, "t.py:5")]))
    tagged = [recv(None, "t.py:3", tag=1), recv(None, "t.py:4", tag=2)]
    assert clean(program(tagged, [send(0, "t.py:5", tag=1)], [send(0, "t.py:5", tag=2)]))


def two_threads(*groups: str) -> Program:
    """Rank 0 calls from a second thread while its main thread is inside a call."""
    return program(
        [ar("t.py:3", group=groups[0], blocks=False), ar("t.py:7", group=groups[1], thread=1)],
        [ar("t.py:3", group=groups[0]), ar("t.py:7", group=groups[1])],
        groups={"dp": (0, 1)},
    )


def test_a_thread_begins_while_another_is_inside() -> None:
    """E12: neither can have told the other to go on."""
    found = only(two_threads("world", "world"))
    assert (found.kind, found.detail, found.ranks) == ("message_race", "threads", (0,))
    assert {"t.py:3", "t.py:7"} <= set(found.summary.replace(",", " ").split())


def test_threads_with_groups_of_their_own() -> None:
    """That is how it is done."""
    assert clean(two_threads("world", "dp"))


def test_threads_one_after_the_other() -> None:
    """A helper thread that has begun after the call is over, and has ended since."""
    steps = [ar("t.py:3"), ar("t.py:7", thread=1), thread_ends(1), ar("t.py:9")]
    assert clean(program(steps, steps))


def test_a_thread_that_has_ended_makes_no_more_calls() -> None:
    """Its rank has returned, and nobody waits for it in vain without being told."""
    steps = [ar("t.py:3", thread=1), thread_ends(1)]
    found = verdict(program(steps, [*steps, ar("t.py:9")]))
    assert [f.kind for f in found] == ["missing_participant"]
