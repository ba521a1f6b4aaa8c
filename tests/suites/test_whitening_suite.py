"""The whitening suite as a user meets it: ids, expectations, traits, adapters, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.suites import whitening

from . import advantage_functions as advantages
from . import whiten_functions as functions
from .pool import WorldPool

# Worlds that this module's tests share are up while those run that need none.
pytestmark = pytest.mark.usefixtures("module_world")

Check = Callable[[], None]


@whitening.parametrize(functions.whiten, worlds=[(2, 2)])
def test_correct_whitening(check: Check) -> None:
    """A correct function passes each law in a world of its own."""
    check()


@whitening.parametrize(
    functions.guard_on_numel,
    worlds=[(2, 1), (1, 2)],
    laws=["rank_with_no_tokens", "equals_float64_reference"],
    expected_failures={"rank_with_no_tokens": "the guard is still there"},
)
def test_guarded_whitening(check: Check) -> None:
    """An expected failure shows as xfail and the other laws pass."""
    check()


def ids(decorator: Any) -> list[str]:
    """The test ids that a parametrize call makes."""
    return [p.id for p in decorator.args[1]]


def marks(decorator: Any) -> dict[str, Any]:
    """The keyword arguments of the xfail mark of each test that has one."""
    return {p.id: m.kwargs for p in decorator.args[1] for m in p.marks}


def test_one_id_for_each_law_and_world() -> None:
    """Ids are law-world; a law that has nothing to say in a world makes no test there."""
    made = ids(
        whitening.parametrize(
            functions.whiten,
            worlds=[(1, 1), {"dp": 2, "cp": 2, "tp": 2}],
            laws=["rank_with_no_tokens", "one_token"],
        )
    )
    assert [
        "rank_with_no_tokens-dp2-cp2-tp2",
        "one_token-dp1-cp1",
        "one_token-dp2-cp2-tp2",
    ] == made


def test_expected_failures_are_strict_and_have_a_reason() -> None:
    """A law, a test id and a glob over ids each make strict xfails for broken laws only."""
    decorator = whitening.parametrize(
        functions.whiten,
        worlds=[(1, 2), (2, 2)],
        laws=["rank_with_no_tokens", "one_token", "zero_variance"],
        expected_failures={
            "rank_with_no_tokens": "issue 12",
            "one_token-dp1-cp2": "issue 13",
            "zero_*-dp2-*": "issue 14",
        },
    )
    strict = {"strict": True, "raises": AssertionError}
    assert {
        "rank_with_no_tokens-dp1-cp2": {"reason": "issue 12", **strict},
        "rank_with_no_tokens-dp2-cp2": {"reason": "issue 12", **strict},
        "one_token-dp1-cp2": {"reason": "issue 13", **strict},
        "zero_variance-dp2-cp2": {"reason": "issue 14", **strict},
    } == marks(decorator)


def test_unknown_law_in_expected_failures_is_an_error() -> None:
    """The message suggests the law that was meant and lists all."""
    with pytest.raises(ValueError, match="unknown whitening law 'rank_with_no_token'") as failure:
        whitening.parametrize(functions.whiten, expected_failures={"rank_with_no_token": "x"})
    assert "did you mean 'rank_with_no_tokens'?" in str(failure.value)
    assert all(law in str(failure.value) for law in whitening.laws())


def test_unknown_law_to_check_is_an_error() -> None:
    """laws= and check_law know the same names."""
    with pytest.raises(ValueError, match="did you mean 'one_token'"):
        whitening.parametrize(functions.whiten, laws=["one_tokn"])
    with pytest.raises(ValueError, match="did you mean 'one_token'"):
        whitening.check_law("one_tokn", functions.whiten)


def test_expectation_for_a_law_that_makes_no_test_is_an_error() -> None:
    """An expectation that would apply nowhere is not swallowed."""
    with pytest.raises(ValueError, match="not among the tests made here"):
        whitening.parametrize(
            functions.whiten, worlds=[(1, 1)], expected_failures={"rank_with_no_tokens": "x"}
        )


def test_expected_failure_needs_a_reason() -> None:
    """An empty reason is an error."""
    with pytest.raises(ValueError, match="needs a reason"):
        whitening.parametrize(functions.whiten, expected_failures={"one_token": ""})


@pytest.mark.parametrize(
    ("world", "text"),
    [
        ({"dp": 2, "xp": 2}, "unknown axis 'xp'"),
        ((0, 1), "dp=0"),
        ((1, 2, 3), "a world is"),
    ],
)
def test_impossible_worlds_are_refused(world: Any, text: str) -> None:
    """A world that cannot be is refused when tests are made, not when they run."""
    with pytest.raises((TypeError, ValueError), match=text):
        whitening.parametrize(functions.whiten, worlds=[world])


def test_unknown_trait_is_an_error_with_a_hint() -> None:
    """A misspelt trait is not taken for its default."""
    with pytest.raises(TypeError, match="did you mean 'shift_mean'"):
        whitening.parametrize(functions.whiten, shift_means=False)


@pytest.mark.parametrize(
    ("trait", "value"),
    [
        ("ddof", 2),
        ("ddof", True),
        ("eps", -1.0),
        ("shift_mean", "yes"),
        ("mask_dtypes", "bool"),
        ("mask_dtypes", ("boolean",)),
    ],
)
def test_impossible_trait_values_are_refused(trait: str, value: Any) -> None:
    """A trait has a few values, and no others."""
    with pytest.raises(ValueError, match=trait.split("_")[0]):
        whitening.Traits.of({trait: value})


def test_every_law_says_what_it_catches() -> None:
    """Each law's docstring states the law and the bug."""
    assert [] == [name for name, doc in whitening.laws().items() if "Catches" not in doc]


def test_check_law_of_a_law_that_does_not_apply_is_an_error() -> None:
    """A check that would check nothing does not pass."""
    with pytest.raises(ValueError, match="does not apply here: one rank holds everything"):
        whitening.check_law("rank_with_no_tokens", functions.whiten, (1, 1))


@pytest.mark.parametrize(
    "traits",
    [
        {"ddof": 0},
        {"ddof": "auto"},
        {"eps_place": "std"},
        {"eps_place": "clamp_variance"},
        {"eps_place": "clamp_std"},
        {"eps": 1e-5},
        {"shift_mean": False},
        {"shift_mean": "added_back"},
        {"masked_out": "zero"},
        {"masked_out": "unchanged"},
        {"all_masked": "unchanged"},
        {"all_masked": "zeros"},
        {"all_masked": "nan"},
        {"one_token": "raises"},
    ],
    ids=str,
)
def test_a_function_passes_with_its_own_traits(pool: WorldPool, traits: dict[str, Any]) -> None:
    """Each declared trait describes a function that passes every law."""
    made = {k: v for k, v in traits.items() if v != "auto"}
    fn = functions.whiten_in_mode(**made)
    assert {} == whitening.check_all(fn, [(1, 2)], world_factory=pool, **traits)


@pytest.mark.parametrize(
    ("traits", "law", "hint"),
    [
        ({"ddof": 0}, "equals_float64_reference", "declare ddof=0"),
        ({"shift_mean": False}, "equals_float64_reference", "declare shift_mean=False"),
        ({"eps_place": "std"}, "eps_in_its_place", "declare eps_place='std'"),
        ({"masked_out": "zero"}, "mask_respected", "masked_out="),
        ({"all_masked": "zeros"}, "globally_empty_mask", "all_masked="),
        ({"one_token": "raises"}, "one_token", "one token has no variance"),
    ],
    ids=str,
)
def test_an_undeclared_trait_is_named(
    pool: WorldPool, traits: dict[str, Any], law: str, hint: str
) -> None:
    """A function that differs from what is declared is told what to declare."""
    fn = functions.whiten_in_mode(**traits)
    with pytest.raises(AssertionError) as failure:
        whitening.check_law(law, fn, (1, 2), world_factory=pool)
    assert hint in str(failure.value)


def test_local_scope(pool: WorldPool) -> None:
    """Statistics of one data-parallel rank pass as local, and the group handed over follows."""
    assert {} == whitening.check_all(
        functions.whiten, [(2, 2), (2, 1)], world_factory=pool, scope="local"
    )


def test_local_statistics_are_not_global_ones(pool: WorldPool) -> None:
    """The same function fails where group scope is declared and it keeps to its own samples."""
    with pytest.raises(AssertionError, match="over cp only"):
        whitening.check_law(
            "equals_float64_reference", functions.cp_group_only, (2, 2), world_factory=pool
        )


def test_per_sample_adapter(pool: WorldPool) -> None:
    """A function of lists, one tensor for each sample, is checked by the same laws."""

    def whiten_lists(values: list[Any], mask: list[Any], group: Any) -> list[Any]:
        import torch

        out = functions.whiten(torch.cat(values), torch.cat(mask), group)
        return list(torch.split(out, [len(v) for v in values]))

    adapter = whitening.per_sample(whiten_lists)
    assert {} == whitening.check_all(adapter, [(2, 2)], world_factory=pool)


def test_rollout_adapter(pool: WorldPool) -> None:
    """A whole advantage function is checked through its rollout."""
    adapter = whitening.rollout(advantages.whitened_grpo)
    assert {} == whitening.check_all(adapter, [(1, 1), (2, 2)], world_factory=pool)


def test_rollout_adapter_finds_the_bugs_of_the_field(pool: WorldPool) -> None:
    """Guard and wrong group are found through the rollout too."""
    adapter = whitening.rollout(advantages.whitened_grpo_with_guard_and_wrong_group)
    broken = whitening.check_all(
        adapter,
        [(1, 2)],
        laws=["same_value_on_every_rank", "rank_with_no_tokens"],
        world_factory=pool,
    )
    assert ["same_value_on_every_rank-dp1-cp2"] == [i for i in broken if i.startswith("same")]


def test_laws_that_a_rollout_cannot_express_make_no_test() -> None:
    """One float reward for each sample cannot be NaN under a mask."""
    made = ids(whitening.parametrize(whitening.rollout(advantages.whitened_grpo), [(1, 2)]))
    assert not [i for i in made if i.startswith(("nan_under_the_mask", "bfloat16_input"))]


def test_wrong_shape_is_named(pool: WorldPool) -> None:
    """A function that returns something else is told what was expected."""
    with pytest.raises(
        AssertionError, match=r"expected a tensor of shape \(396,\) back, got a tuple"
    ):
        whitening.check_law(
            "equals_float64_reference", lambda v, m, g: (v, m), (1, 1), world_factory=pool
        )


def test_failure_carries_the_law(pool: WorldPool) -> None:
    """What the law says is noted on the error."""
    with pytest.raises(AssertionError) as failure:
        whitening.check_law(
            "input_not_mutated", functions.input_whitened_in_place, world_factory=pool
        )
    assert [
        "whitening law input_not_mutated: The caller's values and mask hold the same numbers "
        "afterwards and were never written."
    ] == failure.value.__notes__
