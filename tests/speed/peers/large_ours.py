"""64 ranks of `harness.World`."""

from __future__ import annotations

import harness
from harness import _settings
from tests.speed import _large, functions
from tests.speed._plain import Kept


def open_() -> None:
    """Start the server; a small world that nobody counts."""
    _settings.use(_settings.Settings(shipped=lambda: [functions]))
    with harness.World(2, 2) as world:
        world.run(functions.use_groups)


def large() -> dict[str, float]:
    """Seconds of each part, and MiB for each rank."""
    return _large.acts(Kept(harness.World), _pids)


def _pids(world: harness.World) -> list[int]:
    assert world._supervisor is not None
    return world._supervisor.pids
