"""Calls that meet at one position and differ: in operation, or in an argument."""

from __future__ import annotations

import pytest

from harness.verdict import Finding

from .program import (
    Step,
    ar,
    barrier,
    call,
    clean,
    ends,
    only,
    program,
    raises,
    tensor,
    verdict,
)


def pair(a: Step, b: Step) -> Finding:
    """The finding when ranks 0 and 1 meet in two calls, after one that is right."""
    start = ar("a.py:1")
    return only(program([start, a], [start, b]))


def test_two_operations_meet() -> None:
    """A04, A11, R03: both calls, both lines, and nobody singled out."""
    found = pair(ar("a.py:3"), barrier("a.py:5"))
    assert (found.kind, found.ranks, found.index) == ("call_mismatch", (0, 1), 2)
    assert found.summary == (
        "different collectives meet: call 2 of world [0, 1] is all_reduce(SUM, float32[3]) at "
        "a.py:3 on rank 0, but barrier() at a.py:5 on rank 1"
    )
    assert found.sites == {0: "a.py:3", 1: "a.py:5"}
    assert clean(program([ar("a.py:3")], [ar("a.py:3")]))


def test_a_rank_that_is_past_the_other_call() -> None:
    """R03: the first call under a guard, the second after it: the hint says what it looks like."""
    status, activation = call("all_gather", "exec.py:4 {3.0}"), ar("exec.py:5")
    found = only(program([status, activation], [activation]))
    assert (found.kind, found.index) == ("call_mismatch", 1)
    assert found.hints == (
        "rank 1 is past exec.py:4 in the program: did it leave that all_gather out?",
    )


def test_the_minority_is_at_fault() -> None:
    """With three ranks the one that differs from the two others is named."""
    right, wrong = ar("a.py:3"), barrier("a.py:5")
    found = only(program([right], [wrong], [right]))
    assert (found.kind, found.ranks) == ("call_mismatch", (1,))


def test_the_other_order_on_odd_ranks() -> None:
    """A03, R08: same calls in another order, with the hint at an unordered container."""
    energy = ar("npt.py:7 [k=energy] {6.0}")
    forces = call("all_to_all_single", "npt.py:9 [k=forces] {6.1}")
    found = only(program([energy, forces], [forces, energy]))
    assert (found.kind, found.index) == ("call_mismatch", 1)
    assert any("set or a dict" in hint for hint in found.hints)
    assert clean(program([energy, forces], [energy, forces]))


def test_more_gathers_on_one_rank() -> None:
    """R07: at call 3 a barrier meets a third all_gather; how often each was passed is told."""
    gather, end = call("all_gather", "metric.py:5"), barrier("metric.py:6")
    found = only(program([gather, gather, end], [gather, gather, gather, end]))
    assert found.kind == "call_mismatch"
    assert found.index == 3
    assert any("all_gather at metric.py:5 2 times" in line for line in found.evidence)


def test_an_object_collective_is_called_by_its_name() -> None:
    """B12: all_gather_object against all_gather is a mismatch of calls, not of dtypes."""
    objects = call("all_gather", "a.py:3 |dist.all_gather_object(out, value)|", (1,), "int64")
    tensors = call("all_gather", "a.py:4 |dist.all_gather(out, value)|", (3,))
    found = only(program([objects], [tensors]))
    assert (found.kind, found.ranks, found.index) == ("call_mismatch", (0, 1), 1)
    assert "all_gather_object(...) at a.py:3 on rank 0" in found.summary


@pytest.mark.parametrize(
    ("a", "b", "detail"),
    [
        (ar("a.py:3"), ar("a.py:3", "MAX"), "reduce_op"),
        (ar("a.py:3"), ar("a.py:3", dtype="float64"), "dtype"),
        (ar("a.py:3"), ar("a.py:3", dtype="int32"), "dtype"),
        (ar("a.py:3", shape=(4,)), ar("a.py:3", shape=(6,)), "shape"),
        (call("broadcast", "a.py:3", root=0), call("broadcast", "a.py:3", root=1), "root"),
        (call("reduce", "a.py:3", root=0), call("reduce", "a.py:3", root=1), "root"),
        (call("gather", "a.py:3", root=0), call("gather", "a.py:3", root=1), "root"),
        (
            call("all_gather_into_tensor", "a.py:3", (2,)),
            call("all_gather_into_tensor", "a.py:3", (3,)),
            "shape",
        ),
        (call("all_gather", "a.py:3", (2,)), call("all_gather", "a.py:3", (3,)), "shape"),
        (
            call("reduce_scatter_tensor", "a.py:3", (2,)),
            call("reduce_scatter_tensor", "a.py:3", (4,)),
            "shape",
        ),
    ],
)
def test_an_argument_differs(a: Step, b: Step, detail: str) -> None:
    """B01–B06, B09, R12, R14: the argument and both its values are in the first line."""
    found = pair(a, b)
    assert (found.kind, found.detail, found.level) == ("argument_mismatch", detail, "error")
    assert (found.ranks, found.index) == ((0, 1), 2)
    assert clean(program([a], [a]))
    assert clean(program([b], [b]))


def test_the_first_line_of_an_argument_mismatch() -> None:
    """What differs, on which rank, at which line."""
    found = pair(ar("a.py:3"), ar("b.py:9", "MAX"))
    assert found.summary == (
        "arguments differ: call 2 of world [0, 1], all_reduce, has reduce op SUM on rank 0 "
        "(a.py:3) and MAX on rank 1 (b.py:9)"
    )


def test_another_shape_of_as_many_elements_is_a_warning() -> None:
    """B07: 2x3 against 3x2 may be meant."""
    found = pair(ar("a.py:3", shape=(2, 3)), ar("a.py:3", shape=(3, 2)))
    assert (found.kind, found.detail, found.level) == ("argument_mismatch", "shape", "warning")
    assert found.index == 2


def single(sent: list[int], expected: list[int]) -> Step:
    """all_to_all_single with split lists."""
    return call(
        "all_to_all_single",
        "moe.py:7",
        (sum(sent), 2),
        outputs=(tensor((sum(expected), 2)),),
        input_splits=tuple(sent),
        output_splits=tuple(expected),
    )


def test_a_receiver_expects_another_number() -> None:
    """B08: the pair is named with both numbers."""
    found = pair(single([1, 3], [1, 2]), single([2, 1], [2, 1]))
    assert (found.kind, found.detail) == ("argument_mismatch", "splits")
    assert "rank 0 sends 3 to rank 1, which expects 2" in found.summary
    assert clean(program([single([1, 3], [1, 2])], [single([2, 1], [3, 1])]))


def test_tokens_that_nobody_sends_are_legal() -> None:
    """A55, B51: empty splits that agree."""
    assert clean(program([single([0, 0], [0, 2])], [single([2, 1], [0, 1])]))


def test_all_to_all_of_unequal_shapes() -> None:
    """R11: without split lists the shapes say what is sent and what is expected."""
    steps = [
        call("all_to_all_single", "moe.py:7", (2, 3 + r), outputs=(tensor((2, 3 + r)),))
        for r in (0, 1)
    ]
    found = only(program([steps[0]], [steps[1]]))
    assert (found.kind, found.detail, found.index) == ("argument_mismatch", "shape", 1)
    assert "rank 0 sends 3 to rank 1, which expects 4" in found.evidence
    assert "rank 1 sends 4 to rank 0, which expects 3" in found.evidence


def test_all_to_all_of_lists() -> None:
    """The tensor that a rank sends must fit the one its receiver gives."""

    def lists(sent: list[int], expected: list[int]) -> Step:
        return call(
            "all_to_all",
            "moe.py:7",
            inputs=tuple(tensor((n,)) for n in sent),
            outputs=tuple(tensor((n,)) for n in expected),
        )

    assert pair(lists([1, 2], [1, 4]), lists([3, 1], [2, 1])).detail == "shape"
    assert clean(program([lists([1, 2], [1, 4])], [lists([4, 1], [2, 1])]))


def test_root_only_tensors_are_legal() -> None:
    """B52: a gather list at the destination only, a scatter list at the source only."""
    parts = (tensor(), tensor())
    at_root = call("gather", "a.py:3", root=0, outputs=parts)
    elsewhere = call("gather", "a.py:3", root=0)
    assert clean(program([at_root], [elsewhere]))
    source = call("scatter", "a.py:5", root=0, inputs=parts, outputs=(tensor(),))
    target = call("scatter", "a.py:5", root=0, inputs=(), outputs=(tensor(),))
    assert clean(program([source], [target]))


def test_empty_tensors_are_legal() -> None:
    """B54: zero elements on every rank."""
    assert clean(program([ar("a.py:3", shape=(0,))], [ar("a.py:3", shape=(0,))]))


def test_a_rank_that_dies_inside_a_mismatched_call_is_secondary() -> None:
    """gloo aborts a process on a size mismatch: the mismatch is the cause."""
    a, b = ar("a.py:3", shape=(4,)), barrier("a.py:5")
    found = only(program([a], [b]))
    assert found.kind == "call_mismatch"
    dead = only(
        program([ar("a.py:3", shape=(4,)), ends("died", "SIGABRT")], [ar("a.py:3", shape=(6,))])
    )
    assert (dead.kind, dead.detail) == ("argument_mismatch", "shape")
    assert any("SIGABRT" in line for line in dead.secondary)


def test_a_call_from_a_cleanup_is_the_exceptions_doing() -> None:
    """F09: a barrier in ``finally`` meets the others' all_reduce; the exception is named first."""
    stray = barrier("a.py:9", during="ValueError: bad row")
    found = only(
        program([ar("a.py:5"), ar("a.py:6")], [stray, raises("ValueError", "bad row", "a.py:4")])
    )
    assert (found.kind, found.ranks) == ("rank_raised", (1,))
    assert "rank 1 raised ValueError: bad row" in found.summary


def test_a_mismatch_in_one_group_of_two() -> None:
    """The group of the finding is the one where the calls meet."""
    groups = {"dp": (0, 2), "dp#2": (1, 3)}
    ok = ar("a.py:3", group="dp#2")
    found = only(
        program(
            [ar("a.py:3", group="dp")],
            [ok],
            [ar("a.py:3", "MAX", group="dp")],
            [ok],
            groups=groups,
        )
    )
    assert found.group is not None
    assert str(found.group) == "dp [0, 2]"
    assert found.ranks == (0, 2)
    assert verdict(program([ok], [], [], [], groups={"dp#2": (0,)})) == []
