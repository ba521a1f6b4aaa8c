"""Calls that all complete and yet meet the wrong partner, against branches that may do so."""

from __future__ import annotations

import pytest

from .program import Program, Step, ar, clean, later, only, program, verdict, wait


def branches(i: int, arm: int, line: int) -> Step:
    """One of two lines of an if in a loop over i."""
    return ar(f"t.py:{line} [i={i}] {{10.{arm}}}")


def test_a_skip_that_a_stray_call_evens_out() -> None:
    """A07: rank 1 skips the gradients of step 1, then adds a call; counts agree."""

    def grad(step: int) -> Step:
        return ar(f"t.py:5 [step={step}]")

    metric, stray = ar("t.py:8"), ar("t.py:10 {9.0}")
    found = only(program([grad(0), grad(1), grad(2), metric], [grad(0), grad(2), metric, stray]))
    assert (found.kind, found.index, found.level) == ("misaligned_calls", 2, "error")
    assert found.sites == {0: "t.py:5", 1: "t.py:5"}
    assert "step=1" in found.summary
    assert "step=2" in found.summary
    right = [grad(0), grad(1), grad(2), metric]
    assert clean(program(right, right))


def test_parameters_in_another_order() -> None:
    """B10: equal shapes, names permuted: nothing hangs, gradients are mixed."""
    a, b, c = (ar(f"ddp.py:4 [name={n}]") for n in ("w1", "w2", "bias"))
    found = only(program([a, b, c], [b, a, c]))
    assert (found.kind, found.index, found.ranks) == ("misaligned_calls", 1, (0, 1))
    assert any("same calls, other order" in hint for hint in found.hints)
    three = only(program([a, b, c], [b, a, c], [a, b, c]))
    assert three.ranks == (1,)
    assert clean(program([a, b, c], [a, b, c]))


def test_async_calls_issued_in_opposite_order() -> None:
    """A09: what counts is the order of issue, not of waits."""
    x, y = (ar(f"t.py:4 [name={n}]") for n in ("x", "y"))
    ends = [wait("x", "t.py:6"), wait("y", "t.py:7")]
    found = only(
        program([later(x, "x"), later(y, "y"), *ends], [later(y, "y"), later(x, "x"), *ends])
    )
    assert (found.kind, found.index) == ("misaligned_calls", 1)
    assert clean(
        program([later(x, "x"), later(y, "y"), *ends], [later(x, "x"), later(y, "y"), *ends[::-1]])
    )


def test_a_shared_helper_reached_from_another_caller() -> None:
    """A17: the line is the same, the caller is not; rank 1 is one call behind."""
    first, second, third = (ar(f"util.py:3 in mean < t.py:{line}") for line in (10, 11, 12))
    last = ar("util.py:3 in mean < t.py:15 {14.0}")
    found = only(program([first, second, third], [second, third, last]))
    assert (found.kind, found.index, found.level) == ("misaligned_calls", 1, "error")
    assert "util.py:3 from t.py:10" in found.summary
    assert "util.py:3 from t.py:11" in found.summary


def test_labels_that_meet() -> None:
    """R09: two labels joined in one call are reported, whatever the lines."""
    loss = ar("log.py:3", label="val_loss")
    even, odd = (ar("log.py:3", label=f"val_{n}") for n in ("even", "odd"))
    found = only(program([loss, even], [loss, odd]))
    assert (found.kind, found.detail, found.index) == ("misaligned_calls", "label", 2)
    assert '"val_even" on rank 0' in found.summary
    assert clean(program([loss, even], [loss, even]))


def test_branches_that_call_the_same_collective() -> None:
    """A51: two lines for one call are legal."""
    a, b, end = ar("t.py:4 {3.0}"), ar("t.py:6 {3.1}"), ar("t.py:9")
    assert clean(program([a, end], [b, end]))
    assert clean(program([a, end] * 3, [b, end] * 3))


def test_alternating_branches() -> None:
    """A59: each rank takes the other of two branches in turn, in a counted loop."""
    one = [branches(i, i % 2, 11 if i % 2 == 0 else 13) for i in range(8)]
    two = [branches(i, 1 - i % 2, 13 if i % 2 == 0 else 11) for i in range(8)]
    assert clean(program(one, two))


@pytest.mark.parametrize("passes", [1, 2, 5, 40])
def test_alternating_branches_of_an_uncounted_loop(passes: int) -> None:
    """Without a counter a shift cannot be excluded: a warning at most."""
    a, b = ar("t.py:11 {10.0}"), ar("t.py:13 {10.1}")
    for run in (program([a, b] * passes, [b, a] * passes), program([a, b, b] * 3, [b, a, b] * 3)):
        assert all(f.level == "warning" for f in verdict(run))
    unknown = [ar("t.py:11 {?}"), ar("t.py:13 {?}")]
    assert all(f.level == "warning" for f in verdict(program(unknown, unknown[::-1])))


def test_sync_on_one_rank_async_on_the_other() -> None:
    """A52: the same collective with and without async_op."""
    assert clean(program([ar("t.py:4")], [later(ar("t.py:6"), "w"), wait("w", "t.py:9")]))


def test_loop_values_that_merely_differ() -> None:
    """Each rank walks files of its own, or indices of its own: legal."""
    own = [[ar(f"t.py:4 [path=/data/{r}/{i}]") for i in range(4)] for r in range(2)]
    assert clean(program(*own))
    shard = [[ar(f"t.py:4 [i={4 * r + i}]") for i in range(4)] for r in range(2)]
    assert clean(program(*shard))
    named = [[ar(f"t.py:4 [stage=s{r}] < m.py:2 [step={i}]") for i in range(4)] for r in range(2)]
    assert clean(program(*named))


def test_samples_drawn_in_an_order_of_each_rank() -> None:
    """Shuffled indices of a local buffer, the same numbers on each rank: legal."""
    orders = ([3, 0, 2, 1, 4], [1, 4, 0, 3, 2])
    assert clean(program(*[[ar(f"ppo.py:9 [i={i}]") for i in order] for order in orders]))


def test_indices_that_overlap() -> None:
    """A loop over ranges that overlap is odd, but nothing proves a fault."""
    run = program(*[[ar(f"t.py:4 [i={i}]") for i in range(r, r + 4)] for r in range(2)])
    assert all(f.level == "warning" for f in verdict(run))


def test_a_numbered_loop_in_reverse_is_a_warning() -> None:
    """One rank counts up, the other down: worth a word, no failure."""
    run = program(
        *[[ar(f"t.py:4 [i={i}]") for i in order] for order in ([0, 1, 2, 3], [3, 1, 2, 0])]
    )
    assert [f.level for f in verdict(run)] == ["warning"]


def test_a_long_run_of_branches_stays_silent() -> None:
    """Stretches of unlike positions are judged and forgotten as they close."""
    a, b, end = ar("t.py:4 {3.0}"), ar("t.py:6 {3.1}"), ar("t.py:9")
    assert clean(program(([a] + [end] * 70) * 4, ([b] + [end] * 70) * 4))


def test_a_misalignment_long_ago_is_still_reported() -> None:
    """A permuted stretch that was closed is kept for the verdict."""
    a, b = (ar(f"ddp.py:4 [name={n}]") for n in ("w1", "w2"))
    rest = [ar(f"ddp.py:9 [step={i}]") for i in range(200)]
    run: Program = program([a, b, *rest], [b, a, *rest])
    found = only(run)
    assert (found.kind, found.index) == ("misaligned_calls", 1)
