"""Forked ranks that stay up: the floor of a run on a live world."""

from __future__ import annotations

import sys
import time

import cloudpickle

from tests.speed import _forked, functions
from tests.speed._plain import Kept, PlainWorld

_worlds = Kept(PlainWorld)


def open_() -> None:
    """Fork the ranks; one run that nobody counts."""
    cloudpickle.register_pickle_by_value(sys.modules[functions.__name__])
    _forked.prepare()
    live()


def live(times: int = 1) -> list[float]:
    """Seconds for each of some runs in a row."""
    found = []
    with _worlds(2, 2) as world:
        for _ in range(times):
            started = time.perf_counter()
            results = world.run(functions.one_all_reduce)
            found.append(time.perf_counter() - started)
            functions.check(results, 4)
    return found


def close_() -> None:
    """End the ranks."""
    _worlds.close()
