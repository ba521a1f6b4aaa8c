"""Works, buffers and groups from the call to its wait: what goes wrong in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.record import TensorInfo

from .program import (
    Step,
    ar,
    at,
    barrier,
    call,
    clean,
    compute,
    destroy,
    later,
    made,
    only,
    outside,
    program,
    raises,
    touch,
    verdict,
    wait,
)


def on(step: Step, *tensors: TensorInfo) -> Step:
    """The same call on tensors at known places."""
    return replace(step, inputs=tensors)


# -- works that nobody waits for ------------------------------------------------------------


def test_a_work_that_is_dropped() -> None:
    """D01: all ranks return, and nobody has waited."""
    lost = later(ar("t.py:3"), "w")
    found = only(program([lost, barrier("t.py:5")], [lost, barrier("t.py:5")]))
    assert (found.kind, found.ranks, found.index) == ("work_not_waited", (0, 1), 1)
    assert found.sites == {0: "t.py:3", 1: "t.py:3"}
    right = [lost, barrier("t.py:5"), wait("w", "t.py:6")]
    assert clean(program(right, right))


def test_a_work_that_one_rank_drops() -> None:
    """D07: the rank that waits is not to blame."""
    work = later(ar("t.py:3"), "w")
    found = only(program([work, wait("w", "t.py:4")], [work]))
    assert (found.kind, found.ranks) == ("work_not_waited", (1,))


def test_a_buffer_that_is_used_and_never_waited_for() -> None:
    """D07: the wait that is missing is the fault, the use speaks for it."""
    work = later(ar("t.py:3"), "w")
    found = only(program([work, wait("w", "t.py:4")], [work, touch("w", "read", "t.py:5")]))
    assert (found.kind, found.ranks) == ("work_not_waited", (1,))
    assert any("t.py:5" in line for line in found.evidence)


def test_works_of_one_line_are_one_finding() -> None:
    """A loop that drops each of its works has one fault."""
    lost = [later(ar(f"t.py:3 [i={i}]"), str(i)) for i in range(4)]
    found = only(program(lost, lost))
    assert found.kind == "work_not_waited"
    assert "4 times" in found.summary


@pytest.mark.parametrize("held", ["work", "tensor"])
def test_whose_work_it_is(held: str) -> None:
    """What C++ made on its own it also waits for; Python's calls have to be waited for."""
    lost = later(ar("t.py:3", held=held, inputs=at(0, 3)), "w")
    assert only(program([lost], [lost])).kind == "work_not_waited"
    for other in ("native", "torch"):
        theirs = later(ar("t.py:3", held=other), "w")
        assert clean(program([theirs], [theirs]))


def test_a_functional_call_without_memory_is_not_missed() -> None:
    """Results of no size have no address by which their wait could be known."""
    empty = later(call("all_gather_into_tensor", "t.py:3", (0,), held="tensor"), "w")
    assert clean(program([empty], [empty]))


def test_a_rank_that_raises_before_it_can_wait() -> None:
    """The exception is the cause, not the wait that it prevents."""
    work = later(ar("t.py:3"), "w")
    found = only(
        program([work, wait("w", "t.py:4")], [work, raises("ValueError", "bad", "t.py:4")])
    )
    assert (found.kind, found.ranks) == ("rank_raised", (1,))
    assert not found.secondary


def test_nothing_is_claimed_while_a_rank_runs() -> None:
    """A work may be waited for as long as its rank has not returned."""
    assert verdict(program([later(ar("t.py:3"), "w"), compute()], [ar("t.py:3")])) == []


# -- buffers in flight ----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["written", "read", "resized"])
def test_a_buffer_that_is_used_before_the_wait(how: str) -> None:
    """D02, D03, D04: the line that uses it is shown, and the line of the call is named."""
    work = later(ar("t.py:3"), "w")
    wrong = [work, touch("w", how, "t.py:4"), wait("w", "t.py:5")]
    found = only(program(wrong, wrong))
    assert (found.kind, found.detail, found.ranks) == ("buffer_hazard", how, (0, 1))
    assert found.sites == {0: "t.py:4", 1: "t.py:4"}
    assert "t.py:3" in found.summary


def test_what_may_be_done_with_a_buffer_in_flight() -> None:
    """The root of a broadcast may read; anyone may ask for a tensor of the same shape."""
    sent = later(call("broadcast", "t.py:3", root=0), "w")
    read = touch("w", "read", "t.py:4", "sum")
    assert clean(program([sent, read, wait("w", "t.py:5")], [sent, wait("w", "t.py:5")]))
    found = only(program([sent, wait("w", "t.py:5")], [sent, read, wait("w", "t.py:5")]))
    assert found.ranks == (1,)
    like = [later(ar("t.py:3"), "w"), touch("w", "read", "t.py:4", "empty_like")]
    right = [*like, wait("w", "t.py:5")]
    assert clean(program(right, right))


def test_a_version_that_has_moved_is_no_proof() -> None:
    """A write to a disjoint view moves the version, too: a warning, none for gloo's own copies."""
    moved = touch("w", "written", "t.py:4", "")
    steps = [later(ar("t.py:3"), "w"), moved, wait("w", "t.py:5")]
    assert only(program(steps, steps)).level == "warning"
    gathers = call("all_gather", "t.py:3", outputs=at(0, 6))
    steps = [later(gathers, "w"), moved, wait("w", "t.py:5")]
    assert clean(program(steps, steps))


def two_in_flight(one: Step, two: Step) -> list[Step]:
    """Two calls, both waited for at the end."""
    return [later(one, "a"), later(two, "b"), wait("a", "t.py:8"), wait("b", "t.py:9")]


def test_two_calls_in_flight_on_overlapping_memory() -> None:
    """D05, D06: the same tensor, and slices that share one element."""
    place = ar("t.py:3"), ar("t.py:4")
    for start in (0, 5):
        one, two = on(place[0], *at(0, 6)), on(place[1], *at(start, 6))
        found = only(program(*[two_in_flight(one, two)] * 2))
        assert (found.kind, found.detail) == ("buffer_hazard", "overlap")
        assert found.sites == {0: "t.py:4", 1: "t.py:4"}
    right = two_in_flight(on(place[0], *at(0, 6)), on(place[1], *at(6, 6)))
    assert clean(program(right, right))


def test_a_blocking_call_on_memory_in_flight() -> None:
    """The second call need not be asynchronous."""
    steps = [later(ar("t.py:3", inputs=at(0, 4)), "a"), ar("t.py:4", inputs=at(0, 4))]
    steps.append(wait("a", "t.py:5"))
    assert only(program(steps, steps)).detail == "overlap"


def test_memory_that_is_only_read() -> None:
    """Two gathers may read one tensor; so may the root of two broadcasts."""
    one = call("all_gather", "t.py:3", inputs=at(0, 4), outputs=at(10, 8))
    two = call("all_gather", "t.py:4", inputs=at(0, 4), outputs=at(20, 8))
    steps = two_in_flight(one, two)
    assert clean(program(steps, steps))
    shared = two_in_flight(
        *(call("broadcast", f"t.py:{n}", root=0, inputs=at(0, 4)) for n in (3, 4))
    )
    apart = two_in_flight(
        *(call("broadcast", f"t.py:{n}", root=0, inputs=at(10 * n, 4)) for n in (3, 4))
    )
    assert clean(program(shared, apart))


def test_strided_tensors_are_judged_with_care() -> None:
    """Two columns of a matrix interleave without sharing: only one start is proof."""
    gather = "all_gather"
    columns = [
        call(gather, f"t.py:{n}", inputs=at(n, 9, dense=False), outputs=at(100 * n, 8))
        for n in (3, 4)
    ]
    writes = [replace(c, op="all_gather", outputs=c.inputs, inputs=()) for c in columns]
    steps = two_in_flight(*writes)
    assert clean(program(steps, steps))
    same = two_in_flight(writes[0], replace(writes[0], place="t.py:4"))
    assert only(program(same, same)).detail == "overlap"


def test_memory_is_free_after_the_wait() -> None:
    """D55: two buffers in turn."""
    steps: list[Step] = []
    for i in range(4):
        steps.append(later(ar(f"t.py:3 [i={i}]", inputs=at(100 * (i % 2), 4, version=i)), str(i)))
        if i:
            steps.append(wait(str(i - 1), "t.py:4"))
    steps.append(wait("3", "t.py:5"))
    assert clean(program(steps, steps))


def test_a_dropped_work_does_not_hold_its_memory() -> None:
    """Freed memory comes again: the fault is the missing wait, not an overlap."""
    lost = [later(ar(f"t.py:3 [i={i}]", inputs=at(0, 4)), str(i)) for i in range(3)]
    assert only(program(lost, lost)).kind == "work_not_waited"


def test_outputs_that_are_one_tensor() -> None:
    """B13: ``[buf] * W``."""
    shared = call("all_gather", "t.py:3", outputs=at(0, 3) * 2)
    found = only(program([shared], [shared]))
    assert (found.kind, found.detail, found.ranks) == ("buffer_hazard", "outputs", (0, 1))
    right = call("all_gather", "t.py:3", outputs=at(0, 3) + at(3, 3))
    assert clean(program([right], [right]))
    nothing = call("all_gather", "t.py:3", outputs=at(0, 0) * 2)
    assert clean(program([nothing], [nothing]))


def test_a_strided_tensor_that_gloo_takes_for_dense() -> None:
    """B14: all_reduce, broadcast and reduce; the others copy."""
    for op in ("all_reduce", "broadcast", "reduce"):
        strided = call(op, "t.py:3", inputs=at(0, 3, dense=False))
        found = only(program([strided], [strided]))
        assert (found.kind, found.detail) == ("buffer_hazard", "strided")
    gathers = call("all_gather", "t.py:3", inputs=at(0, 3, dense=False))
    assert clean(program([gathers], [gathers]))
    alone = ar("t.py:3", group="cp", inputs=at(0, 3, dense=False))
    assert clean(program([alone], groups={"cp": (0,)}))


# -- one tensor reduced twice ---------------------------------------------------------------

COUNT, OTHER = at(0, 1), at(50, 1, storage=2)


def test_one_tensor_under_two_names() -> None:
    """R23: the loop says the names."""
    steps = [ar(f"t.py:3 [k={k}]", inputs=t) for k, t in (("full", COUNT), ("cond", COUNT))]
    found = only(program(steps, steps))
    assert (found.kind, found.level, found.index) == ("aliased_reduction", "error", 2)
    assert "k=full" in found.summary
    assert "k=cond" in found.summary


def test_one_tensor_under_two_labels() -> None:
    """`harness.label` says them."""
    steps = [ar("t.py:3", inputs=COUNT, label=name) for name in ("full", "cond")]
    assert only(program(steps, steps)).kind == "aliased_reduction"


@pytest.mark.parametrize("order", [(COUNT, COUNT, OTHER), (OTHER, COUNT, COUNT)])
def test_one_tensor_twice_in_a_loop_over_tensors(order: tuple[tuple[TensorInfo, ...], ...]) -> None:
    """D09: ``for value in metrics.values()``: that it walks things is seen from the others."""
    steps = [ar("t.py:3 []", inputs=t) for t in order]
    found = only(program(steps, steps))
    assert (found.kind, found.level) == ("aliased_reduction", "error")


def test_reductions_again_that_are_meant() -> None:
    """Counted passes, a write between, MAX, other memory, a flag reduced at each batch."""
    for places in (
        [ar(f"t.py:3 [i={i}]", inputs=COUNT) for i in range(3)],
        [ar(f"t.py:3 [k={k}]", inputs=at(0, 1, version=v)) for v, k in enumerate("ab")],
        [ar(f"t.py:3 [k={k}]", "MAX", inputs=COUNT) for k in "ab"],
        [ar(f"t.py:3 [k={k}]", inputs=at(0, 1, storage=s)) for s, k in enumerate("ab", 1)],
        [ar("t.py:3 []", inputs=COUNT)] * 3,
        [ar("t.py:3", inputs=COUNT)] * 3,
    ):
        assert clean(program(places, places))


def test_passes_over_parameters_are_no_aliases() -> None:
    """``all_reduce(p.grad.data)``: ``.data`` begins to count versions anew at each step."""
    steps = [ar("t.py:3 []", inputs=t) for t in (COUNT, OTHER) * 3]
    assert clean(program(steps, steps))


def test_one_tensor_reduced_on_two_lines() -> None:
    """It may be meant: a warning."""
    steps = [ar("t.py:3", inputs=COUNT), ar("t.py:4", inputs=COUNT)]
    assert only(program(steps, steps)).level == "warning"


# -- groups ---------------------------------------------------------------------------------


def test_a_group_that_is_used_after_its_end() -> None:
    """E04."""
    groups = {"dp": (0, 1)}
    steps = [ar("t.py:3", group="dp"), destroy("t.py:4", "dp"), ar("t.py:5", group="dp")]
    found = only(program(steps, steps, groups=groups))
    assert (found.kind, found.detail, found.ranks) == ("use_after_destroy", "used", (0, 1))
    assert found.sites[0] == "t.py:5"
    assert clean(program(steps[:2], steps[:2], groups=groups))
    everything = [destroy("t.py:4"), ar("t.py:5")]
    assert only(program(everything, everything)).kind == "use_after_destroy"


def test_a_group_that_is_destroyed_with_work_under_way() -> None:
    """D08: the wait that comes after is too late."""
    work, gone = later(ar("t.py:3", group="dp"), "w"), destroy("t.py:4", "dp")
    for steps in ([work, gone, wait("w", "t.py:5")], [work, gone]):
        found = only(program(steps, steps, groups={"dp": (0, 1)}))
        assert (found.kind, found.detail) == ("use_after_destroy", "in_flight")
    right = [work, wait("w", "t.py:4"), destroy("t.py:5", "dp")]
    assert clean(program(right, right, groups={"dp": (0, 1)}))


def test_torch_refuses_a_group_that_is_gone() -> None:
    """The exception is told as what it comes from."""
    text = "Default process group has not been initialized, please make sure to call init"
    steps = [destroy("t.py:4"), raises("ValueError", text, "t.py:5")]
    found = only(program(steps, steps))
    assert found.kind == "use_after_destroy"
    assert "t.py:4" in found.summary


def test_a_group_that_is_made_again() -> None:
    """E59: each is a group of its own."""
    steps = [
        step
        for i in range(12)
        for step in (made(f"t.py:3 [i={i}]", f"g{i}", (0, 1)), destroy("t.py:5", f"g{i}"))
    ]
    assert clean(program(steps, steps))


def test_groups_that_pile_up() -> None:
    """E05: one a step, none destroyed."""
    steps = [made(f"t.py:3 [i={i}]", f"g{i}", (0, 1)) for i in range(12)]
    found = only(program(steps, steps))
    assert (found.kind, found.level, found.ranks) == ("group_leak", "warning", (0, 1))
    assert clean(program(steps[:4], steps[:4]))
    lists = [(0, 1), (1, 2), (0, 2), (0, 1, 2)]
    grid = [made(f"t.py:3 [i={i}]", f"g{i}", lists[i % 4]) for i in range(12)]
    assert clean(program(grid, grid, grid))


def test_keys_that_mean_other_groups_on_other_ranks() -> None:
    """E02: ranks that make groups in unlike order may share a key; the creation is the fault."""
    one = [made("t.py:3", "g", (0, 1)), ar("t.py:9", group="world")]
    two = [made("t.py:3", "g", (1, 2)), ar("t.py:9", group="world")]
    assert only(program(one, two, two)).kind == "group_creation"


def test_a_call_on_a_group_of_others() -> None:
    """E06: torch lets it pass in silence."""
    found = only(program([ar("t.py:3", group="A")], [outside("all_reduce", "t.py:3")], groups=A))
    assert (found.kind, found.ranks) == ("non_member_call", (1,))
    assert found.sites[1] == "t.py:3"


A = {"A": (0,)}
