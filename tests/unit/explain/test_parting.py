"""Which decision made rank 1 miss a call: the marked line of each program, and no other."""

from __future__ import annotations

import pytest

from tests.unit.explain.following import Program, line_of, marked, part
from tests.unit.explain.programs import PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_decision_is_named(program: Program) -> None:
    """The line that decided is found, whatever legal branches came before it."""
    found, goer, _ = part(program)
    assert found is not None
    assert ("programs.py", marked(program)) == line_of(found, goer)
