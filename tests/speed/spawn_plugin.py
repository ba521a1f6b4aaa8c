"""A pytest plugin for the comparison: every run of a world spawns its ranks, as RL repos do it.

``pytest -p tests.speed.spawn_plugin`` runs tests that are written for `harness.World` unchanged;
nothing of our launcher, recorder or supervisor takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import _settings, _shipping
from harness.launch._forkserver import ForkServer
from harness.world import World
from tests.speed import _plain

WITHIN = 120.0


def run(world: World, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Take the place of `World.run`."""
    payload = _shipping.pack(function, args, kwargs, _settings.current.shipped())
    return _plain.spawn(world.layout, payload, WITHIN)


def nothing(_: object) -> None:
    """Take the place of what is done once for a world, or for a session."""


def pytest_configure() -> None:
    """Put these in place for the session."""
    patch = pytest.MonkeyPatch()
    patch.setattr(World, "run", run)
    for owner, name in ((World, "start"), (World, "close"), (ForkServer, "start")):
        patch.setattr(owner, name, nothing)
