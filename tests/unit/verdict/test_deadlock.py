"""Waits that cannot end: proved at once, and never where a rank could still come."""

from __future__ import annotations

import pytest

from .program import (
    Step,
    ar,
    barrier,
    clean,
    compute,
    later,
    native,
    only,
    program,
    raises,
    recv,
    send,
    verdict,
    wait,
)

TWO = {"A": (0, 1), "B": (0, 1)}


def test_two_groups_entered_crosswise() -> None:
    """R10, E08: each group's sequence is right, the cycle is between them."""
    a, b = ar("t.py:3 {2.0}", group="A"), ar("t.py:4 {2.0}", group="B")
    c, d = ar("t.py:6 {2.1}", group="B"), ar("t.py:7 {2.1}", group="A")
    found = only(program([a, b], [c, d], groups=TWO))
    assert (found.kind, found.ranks, found.detail) == ("deadlock", (0, 1), "groups")
    assert found.summary == (
        "deadlock: rank 0 waits in all_reduce(SUM, float32[3]) (call 1 of A [0, 1]) at t.py:3 for "
        "rank 1; rank 1 waits in all_reduce(SUM, float32[3]) (call 1 of B [0, 1]) at t.py:6 for "
        "rank 0"
    )
    assert clean(program([a, b], [d, c], groups=TWO))


def test_one_line_of_a_loop_for_both_groups() -> None:
    """Ranks walk over their groups in an order of their own: crosswise, whatever the line."""
    for loop in ("[]", "[k=0]"):
        a, b = (ar(f"t.py:3 {loop}", group=name) for name in "AB")
        assert only(program([a, b], [b, a], groups=TWO)).kind == "deadlock"
        assert clean(program([a, b], [a, b], groups=TWO))


def test_one_call_that_is_given_another_group() -> None:
    """E07: world on one rank, its dp group on the other, at one line that is passed once."""
    groups = {"dp": (0, 1)}
    place = "t.py:3 in mean < t.py:9"
    found = only(program([ar(place)], [ar(place, group="dp")], groups=groups))
    assert (found.kind, found.ranks) == ("group_mismatch", (0, 1))
    assert "world [0, 1] on rank 0, but dp [0, 1] on rank 1" in found.summary
    assert found.sites == {0: "t.py:3", 1: "t.py:3"}
    assert clean(program([ar(place)], [ar(place)], groups=groups))


def test_a_ring_of_pairs_entered_by_a_counted_loop() -> None:
    """E09: each rank counts its edges in an order of its own; nobody has skipped anything."""
    groups = {"ab": (0, 1), "bc": (1, 2), "ca": (0, 2)}

    def enter(*edges: int) -> list[Step]:
        return [ar(f"t.py:3 [edge={e}]", group=["ab", "bc", "ca"][e]) for e in edges]

    found = only(program(enter(0, 2), enter(1, 0), enter(2, 1), groups=groups))
    assert (found.kind, found.ranks) == ("deadlock", (0, 1, 2))
    assert clean(program(enter(0, 2), enter(0, 1), enter(1, 2), groups=groups))


def test_a_skip_in_a_loop_over_two_groups() -> None:
    """Passes that went well show that the counter counts: what is left out then is a skip."""

    def both(step: int) -> list[Step]:
        return [ar(f"t.py:3 [step={step}]", group=name) for name in "AB"]

    right = [both(0), both(1), both(2)]
    short = [both(0), both(1)[1:], both(2)]
    found = only(program(right, short, groups=TWO))
    assert found.ranks in ((1,), (0, 1))
    assert clean(program(right, right, groups=TWO))


def test_async_calls_on_two_groups_in_opposite_order() -> None:
    """Issued crosswise and waited later: legal, whatever the order of the waits."""
    a, b = later(ar("t.py:3", group="A"), "a"), later(ar("t.py:4", group="B"), "b")
    ends = [wait("a", "t.py:8"), wait("b", "t.py:9")]
    assert clean(program([a, b, *ends], [b, a, *ends], groups=TWO))
    assert clean(program([a, b, *ends], [b, a, *ends[::-1]], groups=TWO))


def test_three_pair_groups_in_a_ring() -> None:
    """E09: a cycle of three."""
    groups = {"ab": (0, 1), "bc": (1, 2), "ca": (0, 2)}
    found = only(
        program(
            [ar("t.py:2", group="ab"), ar("t.py:3", group="ca")],
            [ar("t.py:2", group="bc"), ar("t.py:3", group="ab")],
            [ar("t.py:2", group="ca"), ar("t.py:3", group="bc")],
            groups=groups,
        )
    )
    assert (found.kind, found.ranks) == ("deadlock", (0, 1, 2))


def test_a_receive_before_the_barrier_that_the_send_comes_after() -> None:
    """A12: both sides wait for each other across a barrier and a message."""
    found = only(
        program(
            [barrier("t.py:5"), send(1, "t.py:7 {6.0}")],
            [recv(0, "t.py:4 {3.0}"), barrier("t.py:5")],
        )
    )
    assert (found.kind, found.ranks, found.detail) == ("deadlock", (0, 1), "mixed")
    assert clean(
        program(
            [send(1, "t.py:4 {3.1}"), barrier("t.py:5")],
            [recv(0, "t.py:4 {3.0}"), barrier("t.py:5")],
        )
    )


@pytest.mark.parametrize("shape", [(4,), (8 << 20,)])
def test_head_to_head_sends(shape: tuple[int, ...]) -> None:
    """C03, R18: a send may block until its receive is posted, whatever its size."""
    found = only(
        program(
            [send(1, "t.py:3", shape=shape), recv(1, "t.py:4", shape=shape)],
            [send(0, "t.py:3", shape=shape), recv(0, "t.py:4", shape=shape)],
        )
    )
    assert (found.kind, found.ranks, found.detail) == ("deadlock", (0, 1), "p2p")
    assert any("until its receive is posted" in hint for hint in found.hints)


def test_head_to_head_receives() -> None:
    """C04: nobody sends first."""
    found = only(
        program([recv(1, "t.py:3"), send(1, "t.py:4")], [recv(0, "t.py:3"), send(0, "t.py:4")])
    )
    assert (found.kind, found.ranks) == ("deadlock", (0, 1))


def test_a_ring_of_receives() -> None:
    """R18 with three ranks: all edges of the cycle are told."""
    ranks = [[recv((r - 1) % 3, "ring.py:3"), send((r + 1) % 3, "ring.py:4")] for r in range(3)]
    found = only(program(*ranks))
    assert (found.kind, found.ranks) == ("deadlock", (0, 1, 2))
    assert len(found.evidence) == 3


def test_a_ring_in_parity_order() -> None:
    """C52: even ranks send first, odd ones receive first."""

    def rank(r: int) -> list[object]:
        return []

    ranks = []
    for r in range(4):
        steps = [send((r + 1) % 4, "ring.py:4"), recv((r - 1) % 4, "ring.py:5")]
        ranks.append(steps if r % 2 == 0 else steps[::-1])
    assert clean(program(*ranks))


def test_a_ring_with_async_sends() -> None:
    """C51: isend, recv, wait."""
    ranks = [
        [
            later(send((r + 1) % 3, "ring.py:3"), "s"),
            recv((r - 1) % 3, "ring.py:4"),
            wait("s", "ring.py:5"),
        ]
        for r in range(3)
    ]
    assert clean(program(*ranks))


def test_a_pipeline_that_waits_for_its_backward_first() -> None:
    """C09: stage 0 waits for a gradient before it has sent the activation."""
    found = only(
        program(
            [recv(1, "pp.py:3 {2.0}"), send(1, "pp.py:4 {2.0}")],
            [recv(0, "pp.py:6 {2.1}"), send(0, "pp.py:7 {2.1}")],
        )
    )
    assert found.kind == "deadlock"


def test_a_rank_in_user_code_may_release_the_others() -> None:
    """No proof while a member still computes, in whatever thread."""
    assert verdict(program([ar("t.py:3")], [compute()])) == []
    other_thread = ar("t.py:9", thread=1)
    run = program([ar("t.py:3", group="A")], [later(other_thread, "w"), compute()], groups=TWO)
    assert verdict(run) == []


def test_unrelated_ranks_may_go_on_computing() -> None:
    """A cycle of two ranks is proved although a third computes."""
    groups = {"A": (0, 1), "B": (0, 1)}
    a, b = ar("t.py:3 {2.0}", group="A"), ar("t.py:4 {2.0}", group="B")
    c, d = ar("t.py:6 {2.1}", group="B"), ar("t.py:7 {2.1}", group="A")
    found = only(program([a, b], [c, d], [compute()], groups=groups))
    assert (found.kind, found.ranks) == ("deadlock", (0, 1))


def test_two_ranks_wait_for_a_third_that_computes() -> None:
    """Blocked on one another's group too, but the third can release them."""
    assert verdict(program([ar("t.py:3")], [ar("t.py:3")], [compute()])) == []


def test_a_wait_inside_cpp_counts_when_it_is_proved() -> None:
    """DDP's reducer waits in backward for a bucket that another rank never reduces."""
    bucket = later(ar("t.py:8", from_python=False), "b")
    found = only(program([bucket, native("t.py:8")], []))
    assert (found.kind, found.ranks) == ("missing_participant", (1,))
    groups = {"A": (0, 1)}
    cross = only(program([bucket, native("t.py:8")], [ar("t.py:9", group="A")], groups=groups))
    assert cross.kind in ("deadlock", "missing_participant")
    assert cross.ranks in ((0, 1), (1,))


def test_waits_that_lead_to_a_rank_that_raised() -> None:
    """Rank 0 waits for rank 1, which waits for rank 2, which raised: one cause."""
    groups = {"A": (0, 1), "B": (1, 2)}
    found = only(
        program(
            [ar("t.py:3", group="A")],
            [ar("t.py:2", group="B"), ar("t.py:3", group="A")],
            [raises("ValueError", "bad", "t.py:1")],
            groups=groups,
        )
    )
    assert (found.kind, found.ranks) == ("rank_raised", (2,))


def test_a_subgroup_then_the_world() -> None:
    """E53, C54: a collective of two ranks, then a barrier of all three."""
    pair, all_ = ar("t.py:3 {2.0}", group="A"), barrier("t.py:5")
    assert clean(program([pair, all_], [pair, all_], [all_], groups=TWO))


def test_a_world_call_in_flight_during_a_subgroup_call() -> None:
    """E54: an async call on the world, a sync one on a pair, then the wait."""
    flying = later(ar("t.py:2"), "w")
    pair = ar("t.py:3 {2.0}", group="A")
    end = wait("w", "t.py:5")
    assert clean(program([flying, pair, end], [flying, pair, end], [flying, end], groups=TWO))
