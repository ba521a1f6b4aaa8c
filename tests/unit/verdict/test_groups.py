"""Creation of process groups."""

from __future__ import annotations

from .program import ar, barrier, clean, ends, new_group, only, program


def test_members_only() -> None:
    """E01: the ranks that are not members have to take part too."""
    make = new_group("t.py:3 {2.0}", [0, 1])
    found = only(program([make], [make], []))
    assert (found.kind, found.ranks, found.index) == ("group_creation", (2,), 1)
    assert "rank 2 never called new_group #1 ([0, 1])" in found.summary
    assert any("every rank must make every group" in hint for hint in found.hints)
    everywhere = new_group("t.py:3", [0, 1])
    assert clean(program([everywhere], [everywhere], [everywhere]))


def test_members_only_while_the_rest_waits_in_the_world() -> None:
    """The rank left out waits in a barrier that the members never reach."""
    make, end = new_group("t.py:3 {2.0}", [0, 1]), barrier("t.py:5")
    found = only(program([make, end], [make, end], [end]))
    assert (found.kind, found.ranks) == ("group_creation", (2,))
    assert any("rank 2 waits in barrier()" in line for line in found.evidence)


def test_members_only_that_happened_to_work() -> None:
    """Judged by contract: a creation that some ranks never made is a fault even if it completes."""
    from harness.record import Creation, Ended, Finished, Record, Started

    from .program import judged, stack

    records: list[Record] = []
    for rank in range(3):
        records.append(Started(rank, 0.0))
        if rank < 2:
            records.append(Creation(rank, 0, 0, 0, (0, 1), False, stack("t.py:3"), 0.1))
            records.append(Finished(rank, 0, 0, 0.2))
        records.append(Ended(rank, "returned", 0.3 + rank))
    (found,) = judged(records, 3)
    assert (found.kind, found.ranks) == ("group_creation", (2,))


def test_local_synchronization() -> None:
    """With use_local_synchronization only the members take part."""
    make = new_group("t.py:3", [0, 1], local=True)
    assert clean(program([make, barrier("t.py:5")], [make, barrier("t.py:5")], [barrier("t.py:5")]))


def test_lists_that_differ() -> None:
    """R17, E03: one creation, two member lists, reported as it happens."""
    ranks = [[new_group("t.py:3", [0, 2] if r % 2 == 0 else [1, 3])] for r in range(4)]
    found = only(program(*ranks))
    assert (found.kind, found.index, found.detail) == ("group_creation", 1, "members")
    assert "new_group([0, 2]) at t.py:3 on ranks 0, 2" in found.summary
    both = [new_group("t.py:3", [0, 2]), new_group("t.py:4", [1, 3])]
    assert clean(program(both, both, both, both))


def test_groups_in_another_order() -> None:
    """E02, E10: the first creation that differs is named."""
    a, b = new_group("t.py:3", [0, 1]), new_group("t.py:4", [1, 2])
    found = only(program([a, b], [b, a], [a, b]))
    assert (found.kind, found.ranks, found.index) == ("group_creation", (1,), 1)


def test_a_rank_that_died_before_the_creation() -> None:
    """The death is the cause, not the creation."""
    make = new_group("t.py:3", [0, 1])
    found = only(program([make], [make], [ends("died", "exit code 3")]))
    assert (found.kind, found.ranks) == ("rank_died", (2,))


def test_a_collective_left_out_before_a_creation() -> None:
    """Rank 1 went past the all_reduce to the next new_group."""
    make = new_group("t.py:5", [0, 1])
    found = only(program([ar("t.py:3 {2.0}"), make], [make]))
    assert (found.kind, found.ranks, found.op) == ("missing_participant", (1,), "all_reduce")
