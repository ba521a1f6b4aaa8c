"""The proof of the laws: mutants, and which law kills which."""

from __future__ import annotations

import pytest

from harness.suites import kl_aliasing, whitening

from . import kill_matrix
from .kill_matrix import REFERENCE, Kills
from .pool import WorldPool


@pytest.fixture(scope="module")
def whitening_kills(pool: WorldPool) -> Kills:
    """Which law kills which whitening mutant."""
    return kill_matrix.whitening_kills(pool)


@pytest.fixture(scope="module")
def kl_kills(pool: WorldPool) -> Kills:
    """Which law kills which KL mutant."""
    return kill_matrix.kl_kills(pool)


def test_whitening_reference_breaks_no_law(whitening_kills: Kills) -> None:
    """A correct whitening passes every law in every world."""
    assert [] == whitening_kills[REFERENCE]


def test_every_whitening_mutant_is_killed(whitening_kills: Kills) -> None:
    """Each wrong whitening breaks at least one law."""
    assert [REFERENCE] == [name for name, by in whitening_kills.items() if not by]


def test_every_whitening_law_is_needed(whitening_kills: Kills) -> None:
    """Each whitening law has a mutant that no other law catches."""
    sole = kill_matrix.sole_killers(whitening_kills, list(whitening.laws()))
    assert [] == [law for law, mutants in sole.items() if not mutants]


def test_kl_reference_breaks_no_law(kl_kills: Kills) -> None:
    """A correct advantage function passes every law with all six estimators."""
    assert [] == kl_kills[REFERENCE]


def test_every_kl_mutant_is_killed(kl_kills: Kills) -> None:
    """Each wrong advantage function breaks at least one law."""
    assert [REFERENCE] == [name for name, by in kl_kills.items() if not by]


def test_every_kl_law_is_needed(kl_kills: Kills) -> None:
    """Each KL law has a mutant that no other law catches."""
    sole = kill_matrix.sole_killers(kl_kills, list(kl_aliasing.laws()))
    assert [] == [law for law, mutants in sole.items() if not mutants]


def test_page_is_what_was_computed(whitening_kills: Kills, kl_kills: Kills) -> None:
    """The matrix in the documentation is the one that the laws give today."""
    text = kill_matrix.page(whitening_kills, kl_kills)
    print(text)
    assert text == kill_matrix.PAGE.read_text(encoding="utf-8"), (
        "renew it with: python -m tests.suites.kill_matrix --write"
    )
