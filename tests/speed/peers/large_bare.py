"""64 forked ranks that take functions from a pipe, with groups made by ``new_group``."""

from __future__ import annotations

import sys

import cloudpickle

from tests.speed import _forked, _large, functions
from tests.speed._plain import Kept, PlainWorld


def open_() -> None:
    """Import once what ranks need; a small world that nobody counts."""
    cloudpickle.register_pickle_by_value(sys.modules[functions.__name__])
    _forked.prepare()
    with PlainWorld(2, 2) as world:
        world.run(functions.use_groups)


def large() -> dict[str, float]:
    """Seconds of each part, and MiB for each rank."""
    return _large.acts(Kept(PlainWorld), lambda world: world.pids)
