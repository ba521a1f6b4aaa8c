"""Which decision made rank 1 miss a call: the marked line of each program, and no other."""

from __future__ import annotations

import pytest

from harness.explain import _follower
from harness.explain._parting import differences, parting
from harness.explain._paths import Contexts, Path
from tests.unit.explain.following import Program, call, follow, line_of, lost, marked, part
from tests.unit.explain.programs import PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_decision_is_named(program: Program) -> None:
    """The line that decided is found, whatever legal branches came before it."""
    found, goer, _ = part(program)
    assert found is not None
    assert ("programs.py", marked(program)) == line_of(found, goer)


def guarded(rank: int) -> None:
    size = 1 - rank
    if size > 0:  # HERE
        call()


def test_a_way_that_was_not_kept_to_its_end_is_not_blamed() -> None:
    """The rank may have come to the call later."""
    contexts = Contexts()
    goer, _ = follow(guarded, 0, contexts, waits_in="it")
    other, _ = follow(guarded, 1, contexts)
    assert parting(goer, goer.marks[0], other) is not None
    other.full = True
    assert parting(goer, goer.marks[0], other) is None


def fails_for_want_of_a_partner(rank: int) -> None:
    try:
        lost("other", fails=rank == 1)
    except RuntimeError:
        return
    call()


def test_an_error_out_of_a_collective_decides_nothing() -> None:
    """It may come of a partner that is gone, and of the end of the world itself."""
    found, goer, other = part(fails_for_want_of_a_partner)
    assert found is None
    assert [] == list(differences(goer, other))
    assert [] == other.failures


def test_values_that_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is found without them."""
    found, goer, _ = part(guarded)
    assert found is not None
    assert goer.visits[found.context].values[found.point]
    monkeypatch.setattr(_follower, "SECONDS", -1.0)
    found, goer, _ = part(guarded)
    assert found is not None
    assert ("test_parting.py", marked(guarded)) == line_of(found, goer)
    assert {} == goer.visits[found.context].values


def test_reading_a_way_is_bounded() -> None:
    """A way for which there is no time counts as not kept."""
    assert Path(0, iter([(1, 1, 1, None)]), Contexts(), until=0.0).full


def yielding(rank: int) -> None:
    def sizes() -> object:
        yield 7

    for _ in sizes() if rank == 0 else ():  # type: ignore[attr-defined]
        call()


def test_what_a_generator_hands_out_is_not_its_result() -> None:
    """No value of it is shown as if a function had returned it."""
    found, goer, _ = part(yielding)
    assert found is not None
    assert "sizes()" not in str(goer.visits[found.context].values)


class Speaking(Exception):
    """An exception that says something by code of the user's."""

    def __str__(self) -> str:
        raise AssertionError("was asked")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad\nrow"), "bad\\nrow"),
        (KeyError("row"), "'row'"),
        (ValueError(1, None), "(1, None)"),
        (ValueError(Speaking()), ""),
        (Speaking("row"), ""),
    ],
)
def test_an_exception_is_not_made_to_speak(error: Exception, text: str) -> None:
    """What it says is shown only where that runs no code of the user's, and on one line."""
    assert text == _follower.message(error)
