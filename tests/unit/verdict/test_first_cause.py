"""Which fault is told: the first one, at its own call, without what only follows from it."""

from __future__ import annotations

from dataclasses import replace

from harness.verdict import Judge

from .program import (
    Step,
    ar,
    barrier,
    call,
    clean,
    compute,
    ends,
    fails,
    later,
    only,
    program,
    raises,
    records,
    recv,
    send,
    verdict,
    wait,
)


def step(i: int) -> Step:
    """One pass of a training loop."""
    return ar(f"t.py:18 [step={i}]")


def test_a_skip_in_a_loop_with_a_barrier_after_it() -> None:
    """A18: the pass is named, and nobody waits for a rank that stands in the wrong call."""
    end = barrier("t.py:20")
    run = program([step(i) for i in range(4)] + [end], [step(0), step(1), step(3), end])
    found = only(run)
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 3)
    assert "step=2" in found.summary


def test_ranks_in_calls_that_do_not_go_together_have_settled() -> None:
    """The verdict need not wait for anybody."""
    judge = Judge(2)
    for record in records(program([ar("t.py:3 {2.0}")], [barrier("t.py:5 {2.1}")])):
        judge.add(record)
    assert judge.fault()
    assert judge.settled()


def test_a_guarded_call_before_one_of_another_shape() -> None:
    """Rank 1 stands beyond line 18, which it never made."""
    first, second = ar("t.py:18 {17.0}", shape=(2,)), ar("t.py:22", shape=())
    found = only(program([first, second], [second]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 1)
    assert found.sites == {0: "t.py:18", 1: "t.py:22"}
    assert clean(program([first, second], [first, second]))


def test_two_arms_with_other_shapes_stay_a_mismatch() -> None:
    """Neither line comes after the other."""
    one, two = ar("t.py:18 {17.0}", shape=(2,)), ar("t.py:22 {17.1}", shape=())
    assert only(program([one], [two])).kind == "argument_mismatch"


def test_a_loop_left_early_for_the_next_function() -> None:
    """A15: rank 1 breaks at step 2, and its evaluation pairs with that step."""

    def train(i: int) -> Step:
        return ar(f"t.py:20 in train [i={i}] < t.py:34")

    evaluation = ar("t.py:28 in evaluate < t.py:35")
    right = [*map(train, range(5)), evaluation]
    found = only(program(right, [train(0), train(1), evaluation]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 3)
    assert clean(program(right, right))


def test_what_usually_follows_is_known_whatever_the_loop_values() -> None:
    """A16: batches of other lengths on each rank, and a cache that spares one agreement."""

    def both(length: int) -> list[Step]:
        return [
            ar(f"t.py:24 in agree < t.py:33 [length={length}]", "MAX"),
            ar(f"t.py:35 [length={length}]"),
        ]

    found = only(program([both(5), both(7), both(9)], [both(5), both(8), ar("t.py:35 [length=5]")]))
    assert (found.kind, found.ranks, found.index) == ("missing_participant", (1,), 5)
    assert clean(program([both(5), both(7), both(9)], [both(5), both(8), both(6)]))


def test_an_error_is_told_once() -> None:
    """What a rank raised is under what followed, not beside it too."""
    run = program(
        [ar("t.py:3"), fails("RuntimeError", "Connection closed by peer")],
        [raises("ValueError", "bad row", "t.py:2")],
        [ar("t.py:3", "MAX"), raises("TypeError", "no", "t.py:4")],
    )
    for finding in verdict(run):
        assert len(finding.secondary) == len(set(finding.secondary))
        assert not any(line.startswith("also: rank") for line in finding.secondary)


def test_callers_that_are_a_group_of_the_grid() -> None:
    """E13: certain as soon as all callers are of one group and the others have ended."""
    mean = ar("t.py:13")
    groups = {"dp": (0, 1), "dp#2": (2, 3)}
    found = only(program([], [], [mean], [mean], groups=groups))
    assert any("exactly the dp group [2, 3]" in hint for hint in found.hints)
    late = verdict(program([], [], [compute()], [mean], groups=groups))
    assert any("all callers are of the dp group [2, 3]" in hint for hint in late[0].hints)


def test_an_index_inside_the_group_given_as_a_rank() -> None:
    """R14: it raises where it is no member, and goes through where it is one by chance."""
    groups = {"cp": (0, 2), "cp#2": (1, 3)}
    text = "ValueError", "Global rank 1 is not part of group <cp>", "t.py:9"
    sent = call("broadcast", "t.py:9", group="cp#2", root=1)
    # Member 0 of [1, 3] where member 1 is meant.
    found = only(program([raises(*text)], [sent], [raises(*text)], [sent], groups=groups))
    assert (found.kind, found.ranks) == ("rank_raised", (0, 2))
    assert any("number 0 of it" in hint for hint in found.hints)


def test_a_collective_of_a_teardown_shows_where_the_error_came_from() -> None:
    """F06: the barrier of a ``finally`` is only where the rank ended up."""
    cleanup = barrier("t.py:17 in teardown < t.py:30", during="OSError: no file")
    cleanup = replace(cleanup, raised_at="t.py:36")
    found = only(program([ar("t.py:37")], [cleanup]))
    assert (found.kind, found.ranks, found.sites[1]) == ("rank_raised", (1,), "t.py:36")
    assert "OSError: no file at t.py:36" in found.summary


def test_a_rank_that_died_inside_a_call_is_shown_there() -> None:
    """F03."""
    inside = ar("t.py:3", blocks=False)
    found = only(program([ar("t.py:3")], [inside, ends("died", "SIGSEGV")]))
    assert (found.kind, found.ranks) == ("rank_died", (1,))
    assert found.sites[1] == "t.py:3"


def test_sends_may_be_allowed_to_buffer() -> None:
    """By contract head-to-head sends wait for each other; with buffering they do not."""
    run = program([send(1, "t.py:3"), recv(1, "t.py:4")], [send(0, "t.py:3"), recv(0, "t.py:4")])
    assert only(run).kind == "deadlock"
    judge = Judge(2, buffered_sends=True)
    for record in records(run):
        judge.add(record)
        assert not judge.fault()
    assert judge.findings() == []


def test_an_early_return_leaves_its_wait_out_too() -> None:
    """The call that it left out comes first."""
    work = later(ar("t.py:3"), "w")
    right = [work, barrier("t.py:5"), wait("w", "t.py:6")]
    found = only(program(right, [work]))
    assert (found.kind, found.ranks, found.op) == ("missing_participant", (1,), "barrier")
