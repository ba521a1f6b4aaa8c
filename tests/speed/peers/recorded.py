"""all_reduces in a row on our worlds, recorded and not."""

from __future__ import annotations

import harness
from harness import _settings
from tests.speed import functions

_worlds: dict[tuple[int, bool], harness.World] = {}


def open_() -> None:
    """Functions travel by value, as those of tests do."""
    _settings.use(_settings.Settings(shipped=lambda: [functions]))


def loop(size: int, record: bool, calls: int) -> tuple[float, float]:
    """Mean over the ranks of a live world: seconds by the clock and of CPU for each call."""
    if (size, record) not in _worlds:
        dp, cp = (2, 2) if size == 4 else (size, 1)
        _worlds[size, record] = harness.World(dp=dp, cp=cp, record=record)
    found = _worlds[size, record].run(functions.loop, calls)
    clock, cpu = (sum(column) / size for column in zip(*found, strict=True))
    return clock, cpu


def close_() -> None:
    """End the worlds."""
    for world in _worlds.values():
        world.close()
