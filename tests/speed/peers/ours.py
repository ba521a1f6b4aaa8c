"""`harness.World`, as a test uses it: the server is warm, the function travels by value."""

from __future__ import annotations

import time
from dataclasses import replace

import harness
from harness import _settings
from harness._pool import Pool
from tests.speed import functions

_alive: list[harness.World] = []
_pool = Pool()


def open_() -> None:
    """Start the server; one world that nobody counts."""
    _settings.use(_settings.Settings(shipped=lambda: [functions]))
    world()


def world() -> float:
    """Seconds for one world."""
    started = time.perf_counter()
    with harness.World(dp=2, cp=2) as made:
        results = made.run(functions.one_all_reduce)
    seconds = time.perf_counter() - started
    functions.check(results, 4)
    return seconds


def live(times: int = 1) -> list[float]:
    """Seconds for each of some runs in a row on a world that stays up."""
    if not _alive:
        _alive.append(harness.World(dp=2, cp=2))
    found = []
    for _ in range(times):
        started = time.perf_counter()
        results = _alive[0].run(functions.one_all_reduce)
        found.append(time.perf_counter() - started)
        functions.check(results, 4)
    return found


def reuse(times: int = 1) -> list[float]:
    """Seconds for each of some worlds in a row that ``world_reuse`` keeps up."""
    before = _settings.use(replace(_settings.current, pool=_pool))
    found = [world() for _ in range(times)]
    _settings.use(before)
    return found


def close_() -> None:
    """End what stays up."""
    _pool.close()
    for made in _alive:
        made.close()
