"""A test that trains for a second and then fails, with and without the second run."""

from __future__ import annotations

import time
from typing import Any

import harness
from harness import _settings
from tests.speed import functions


def open_() -> None:
    """One of each that nobody counts: the server has imported what optimizers need."""
    _settings.use(_settings.Settings(shipped=lambda: [functions]))
    for explain in ("never", "always"):
        failing(explain)


def failing(explain: str) -> float:
    """Seconds from the start of the world to its error."""
    began = time.perf_counter()
    try:
        with harness.World(dp=2, cp=2, explain=explain) as world:
            world.run(functions.train_then_skip)
    except harness.WorldError as error:
        _check(error, explain)
        return time.perf_counter() - began
    raise RuntimeError("nothing was found")


def _check(error: Any, explain: str) -> None:
    run = error.run
    found = None if run is None or run.explanation is None else run.explanation.divergence
    if explain == "always" and (found is None or "mask.any()" not in found.source):
        raise RuntimeError(f"the guard was not named: {error}")
