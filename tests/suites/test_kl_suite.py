"""The KL suite as a user meets it: ids, declarations, what is flagged and what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.suites import kl_aliasing
from harness.suites.kl_aliasing import Config

from . import advantage_functions as functions
from .pool import WorldPool

# Worlds that this module's tests share are up while those run that need none.
pytestmark = pytest.mark.usefixtures("module_world")

Check = Callable[[], None]


@kl_aliasing.parametrize(functions.compute, estimators=["ppo", "grpo"], worlds=[(1, 2)])
def test_correct_advantages(check: Check) -> None:
    """A correct function passes each law in a world of its own."""
    check()


@kl_aliasing.parametrize(
    functions.kl_shaped_in_place,
    estimators=["ppo"],
    expected_failures={"logged_*": "the KL is shaped in place"},
)
def test_in_place_kl(check: Check) -> None:
    """The bug from the field breaks the laws about the log, and no others."""
    check()


def test_one_id_for_each_law_estimator_and_world() -> None:
    """Ids are law-estimator-world."""
    decorator: Any = kl_aliasing.parametrize(
        functions.compute, ["grpo", "my_own"], [(1, 1), (1, 2)], laws=["inputs_not_mutated"]
    )
    assert [
        "inputs_not_mutated-grpo-dp1-cp1",
        "inputs_not_mutated-grpo-dp1-cp2",
        "inputs_not_mutated-my_own-dp1-cp1",
        "inputs_not_mutated-my_own-dp1-cp2",
    ] == [p.id for p in decorator.args[1]]


def test_function_that_returns_a_dict(pool: WorldPool) -> None:
    """Results may be returned instead of being put into the rollout."""
    assert {} == kl_aliasing.check_all(
        functions.compute_and_return, worlds=[(1, 2)], world_factory=pool
    )


def test_every_factorization(pool: WorldPool) -> None:
    """The reference passes with all six estimators where samples and tokens are both spread."""
    assert {} == kl_aliasing.check_all(functions.compute, worlds=[(2, 2)], world_factory=pool)


def test_advantages_may_share_with_returns(pool: WorldPool) -> None:
    """One set of tensors under both names is legitimate."""

    def one_for_both(rollout: dict[str, Any], config: Config) -> None:
        functions.compute(rollout, config)
        rollout["returns"] = rollout["advantages"]

    assert {} == kl_aliasing.check_all(one_for_both, ["grpo"], world_factory=pool)


def test_declared_sharing_is_not_flagged(pool: WorldPool) -> None:
    """A pair that is declared to share memory passes."""
    assert {} == kl_aliasing.check_all(
        functions.kl_handed_out_as_the_penalty,
        ["ppo"],
        returned=["advantages", "kl_penalty"],
        shared=[("kl_penalty", "kl")],
        world_factory=pool,
    )


def test_declared_mutation_is_not_flagged(pool: WorldPool) -> None:
    """An entry that is declared to be written passes."""
    assert {} == kl_aliasing.check_all(
        functions.log_probs_overwritten, ["ppo"], mutates=["log_probs"], world_factory=pool
    )


def test_declared_zeros_at_zero_coefficient(pool: WorldPool) -> None:
    """A function that skips the KL at kl_coef = 0 passes once it says so."""
    assert {} == kl_aliasing.check_all(
        functions.no_kl_at_zero_coefficient, ["ppo"], at_zero_coef="zeros", world_factory=pool
    )


def test_declared_absence_at_zero_coefficient(pool: WorldPool) -> None:
    """A function that logs no KL at all at kl_coef = 0 passes once it says so."""

    def none_at_zero(rollout: dict[str, Any], config: Config) -> None:
        functions.compute(rollout, config)
        if not config.kl_coef:
            del rollout["kl"]

    assert {} == kl_aliasing.check_all(
        none_at_zero, ["ppo"], at_zero_coef="absent", world_factory=pool
    )
    with pytest.raises(AssertionError, match="neither put kl into the rollout nor returned it"):
        kl_aliasing.check_law("inputs_not_mutated", none_at_zero, "ppo", world_factory=pool)


def test_an_equal_copy_in_the_log_is_not_flagged(pool: WorldPool) -> None:
    """A logged field may be exchanged for an equal one, whatever becomes of the old tensors."""

    def copies(rollout: dict[str, Any], config: Config) -> None:
        functions.compute(rollout, config)
        old = list(rollout["kl"])
        rollout["kl"] = [k.clone() for k in old]
        functions.shape_in_place({**rollout, "kl": old}, config)

    assert {} == kl_aliasing.check_all(copies, ["ppo"], world_factory=pool)


def test_expanded_returns_are_probed(pool: WorldPool) -> None:
    """A returned tensor whose elements share one number is no obstacle."""

    def expands(rollout: dict[str, Any], config: Config) -> None:
        functions.compute(rollout, config)
        rollout["returns"] = [r[:1].expand(len(r)) if len(r) else r for r in rollout["returns"]]

    assert {} == kl_aliasing.check_all(expands, ["grpo"], world_factory=pool)


def test_other_settings_with_the_same_fault_are_named(pool: WorldPool) -> None:
    """The report says under which other KL types and coefficients the same happens."""
    with pytest.raises(AssertionError) as failure:
        kl_aliasing.check_law(
            "logged_fields_unchanged",
            functions.kl_shaped_in_place_at_zero_coefficient,
            "ppo",
            kl_types=["k1", "k2"],
            world_factory=pool,
        )
    assert str(failure.value).endswith("the same with k2 at kl_coef=0")


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"kl_types": ["k4"]}, "unknown kl_aliasing KL type 'k4'"),
        ({"kl_types": "k1"}, "pass a list"),
        ({"kl_field": "approx_kl"}, "not among the logged fields"),
        ({"at_zero_coef": "none"}, "at_zero_coef='none'"),
        ({"kl_coefs": []}, "at least one entry"),
        ({"estimators": "ppo"}, "pass a list"),
        ({"expected_failures": {"logged_kl": "x"}}, "did you mean 'logged_kl_is_the_kl'"),
    ],
    ids=str,
)
def test_impossible_declarations_are_refused(declared: dict[str, Any], text: str) -> None:
    """A declaration that cannot be is refused when tests are made."""
    with pytest.raises((TypeError, ValueError), match=text):
        kl_aliasing.parametrize(functions.compute, **declared)


def test_every_law_says_what_it_catches() -> None:
    """Each law's docstring states the law and the bug."""
    assert [] == [name for name, doc in kl_aliasing.laws().items() if "Catches" not in doc]
