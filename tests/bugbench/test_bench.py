"""Every program of the bench, once: its fault is named, its corrected twin is silent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = str(Path(__file__).parent.parent.parent)
if ROOT not in sys.path:
    # Programs go to the ranks by name; at the end of the path, so that the installed package wins.
    sys.path.append(ROOT)

from harness import _settings  # noqa: E402
from tests.bugbench.__main__ import PRELOAD, complaints, run_one  # noqa: E402
from tests.bugbench.explaining import Told  # noqa: E402
from tests.bugbench.program import Program, programs  # noqa: E402

MISSED: dict[str, str] = {}
"""What is known to be missed, by id, with the reason; it stays in the score."""

UNEXPLAINED: dict[str, str] = {}
"""Programs whose guard the explainer is known not to find, by id, with the reason."""

NEEDS_TORCH = {"A61": (2, 7)}
"""Programs, by id, that an earlier torch does not run on CPUs by itself."""

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
PROGRAMS = list(programs())


@pytest.fixture(scope="module", autouse=True)
def _bench_settings() -> Iterator[None]:
    before = _settings.use(_settings.Settings(preload=PRELOAD))
    yield
    _settings.use(before)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_program(program: Program, request: pytest.FixtureRequest) -> None:
    """The right kind, the right ranks and a marked line; the guard; nothing on the correct form."""
    if TORCH < NEEDS_TORCH.get(program.id, TORCH):
        pytest.skip(f"torch {torch.__version__} does not run this on CPUs")
    if program.id in MISSED:
        request.applymarker(pytest.mark.xfail(reason=MISSED[program.id], strict=True))
    forms = (True,) if program.is_trap else (False, True)
    runs = [run_one(program, fixed=fixed, seed=0, explain="always") for fixed in forms]
    assert [] == complaints(runs)
    if not program.is_trap and program.id not in UNEXPLAINED:
        told = Told(program, 0, runs[0].found)
        assert told.verdict in ("right", "none"), (told.line, told.reason)


def test_the_bench_is_whole() -> None:
    """No program was dropped to make the score."""
    ids = {program.id for program in PROGRAMS}
    expected = {
        *(f"A{n:02}" for n in range(1, 20)),
        *(f"B{n:02}" for n in range(1, 15)),
        *(f"C{n:02}" for n in range(1, 13)),
        *(f"D{n:02}" for n in range(1, 11)),
        *(f"E{n:02}" for n in range(1, 14)),
        *(f"F{n:02}" for n in range(1, 11)),
        *(f"G{n:02}" for n in range(1, 7)),
        *(f"H{n:02}" for n in range(1, 6)),
        *(f"R{n:02}" for n in range(1, 27)),
        *("R12b", "R18b"),
        *(f"A{n}" for n in range(51, 66)),
        *(f"B{n}" for n in range(51, 58)),
        *(f"C{n}" for n in range(51, 59)),
        *(f"D{n}" for n in range(51, 58)),
        *(f"E{n}" for n in range(51, 60)),
        *(f"F{n}" for n in range(51, 56)),
        *(f"G{n}" for n in range(51, 54)),
        *("H51", "H52"),
    }
    assert expected == ids
