"""The measured figures of the two laws, computed again by worlds."""

from __future__ import annotations

from typing import Any

import pytest

from harness.suites import kl_aliasing, whitening
from harness.suites._batch import Batch, make
from harness.suites._kl_laws import KlSession
from harness.suites._whitening_rank import Adapter
from harness.suites._whitening_session import Session
from harness.suites._worlds import Axes

from . import advantage_functions, whiten_functions
from .pool import WorldPool

# Worlds that this module's tests share are up while those run that need none.
pytestmark = pytest.mark.usefixtures("module_world")

THREE = ((64, 48), (100, 90), (40, 12))
RIGHT = [1.439168, -0.616786, -1.130775]


def three_sequences(dp: int) -> Batch:
    """Three sequences with one advantage each."""
    return make(
        THREE,
        [1.5, -0.5, -1.0],
        [i % dp for i in range(3)],
        per_token=False,
        mask_dtype="float32",
    )


def per_rank(pool: WorldPool, fn: Any, batch: Batch, dp: int, cp: int) -> list[dict[int, float]]:
    """For each rank the whitened value of each sample of which it holds a token."""
    [result] = Session(Adapter(fn), Axes(dp, cp), factory=pool).run(batch)
    return [
        {i: round(row[0], 6) for i, row in outcome.outputs.items() if row}
        for outcome in result.outcomes
    ]


@pytest.mark.parametrize(("dp", "cp"), [(1, 1), (1, 2), (1, 4), (2, 1), (3, 1), (2, 2)])
def test_right_group_gives_every_rank_the_same(pool: WorldPool, dp: int, cp: int) -> None:
    """The correct whitening gives the known values on every rank of every factorization."""
    for values in per_rank(pool, whiten_functions.whiten, three_sequences(dp), dp, cp):
        for sample, value in values.items():
            assert pytest.approx(RIGHT[sample], abs=2e-6) == value


def test_wrong_group_at_cp_2(pool: WorldPool) -> None:
    """Statistics over dp without cp give the two context-parallel ranks different advantages."""
    assert [
        pytest.approx({0: 1.707037, 1: -0.457986, 2: -0.999241}, abs=2e-6),
        pytest.approx({0: 1.273883, 1: -0.740629, 2: -1.244257}, abs=2e-6),
    ] == per_rank(pool, whiten_functions.wrong_group, three_sequences(1), 1, 2)


def test_wrong_group_at_cp_4(pool: WorldPool) -> None:
    """At cp=4 the first sequence has four different advantages."""
    values = per_rank(pool, whiten_functions.wrong_group, three_sequences(1), 1, 4)
    assert pytest.approx([1.454037, 1.801567, 1.321055, 1.259488], abs=2e-6) == [
        row[0] for row in values
    ]


def test_wrong_group_with_the_standard_samples(pool: WorldPool) -> None:
    """The law's own eight samples show the wrong group with the known values."""
    with pytest.raises(AssertionError) as failure:
        whitening.check_law(
            "same_value_on_every_rank", whiten_functions.wrong_group, (1, 2), world_factory=pool
        )
    text = str(failure.value)
    assert "+1.762075" in text
    assert "+1.504895" in text
    assert "over dp without cp" in text


@pytest.mark.parametrize(("dp", "cp"), [(1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (4, 1)])
def test_guard_on_numel_passes_wherever_no_rank_is_empty(pool: WorldPool, dp: int, cp: int) -> None:
    """The eight samples leave no rank empty, so only the law about empty ranks catches the guard."""
    whitening.check_law(
        "same_for_every_factorization" if dp * cp > 1 else "equals_float64_reference",
        whiten_functions.guard_on_numel,
        (dp, cp),
        world_factory=pool,
    )


def test_two_samples_that_leave_a_rank_empty() -> None:
    """(256, 16) and (64, 48) at dp=2, cp=2 leave rank 1 without tokens, and only rank 1."""
    batch = make(((256, 16), (64, 48)), [1.0], [0, 1], per_token=False, mask_dtype="float32")
    held = [sum(map(len, batch.local(2, dp, cp).values())) for dp in (0, 1) for cp in (0, 1)]
    assert [16, 0, 16, 32] == held


@pytest.mark.parametrize(
    ("kl_coef", "expected"), [(0.05, [-0.005, -0.01, 0.985]), (0.0, [0.0, 0.0, 1.0])]
)
def test_in_place_bug_leaves_the_shaped_reward_in_the_log(
    pool: WorldPool, kl_coef: float, expected: list[float]
) -> None:
    """The KL worked out by hand ends as the known shaped reward, at kl_coef = 0 too."""
    session = KlSession(
        advantage_functions.kl_shaped_in_place,
        Axes(),
        "ppo",
        kl_types=("k1",),
        kl_coefs=(kl_coef,),
        factory=pool,
    )
    [outcome] = session.run()
    assert pytest.approx(expected, abs=1e-6) == outcome.logged["kl"][0]


def test_in_place_bug_is_named(pool: WorldPool) -> None:
    """The report shows both figures and says what happened to the logged KL."""
    with pytest.raises(AssertionError) as failure:
        kl_aliasing.check_law(
            "logged_kl_is_the_kl",
            advantage_functions.kl_shaped_in_place_at_nonzero_coefficient,
            "ppo",
            kl_types=["k1"],
            world_factory=pool,
        )
    text = str(failure.value)
    assert "logs [-0.005, -0.01, 0.985] as the KL where k1 is [0.1, 0.2, 0.3]" in text
    assert "this is the shaped reward" in text
