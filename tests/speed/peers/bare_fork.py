"""The floor: four forks of a process that has torch, a gloo group over a file, and their end."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

from torch._C._distributed_c10d import set_debug_level_from_env

from harness.layout import Layout
from tests.speed import _forked, functions

LAYOUT = Layout(2, 2)


def open_() -> None:
    """Import once what ranks need; one world that nobody counts."""
    _forked.prepare()
    world()


def world(groups: tuple[str, ...] = ()) -> float:
    """Seconds for one world, which also makes ``groups`` with ``new_group``."""

    def body(rank: int, store: str, pipe: Connection) -> None:
        _forked.join(rank, LAYOUT.world_size, store)
        _forked.make_groups(LAYOUT, groups, rank)
        pipe.send(functions.one_all_reduce(rank))

    started = time.perf_counter()
    with _forked.Forked(LAYOUT.world_size, body) as ranks:
        results = ranks.results()
    seconds = time.perf_counter() - started
    functions.check(results, LAYOUT.world_size)
    return seconds


def loop(calls: int, detail: bool) -> float:
    """Seconds for each all_reduce of a row in a world of its own, under DETAIL or not."""

    def body(rank: int, store: str, pipe: Connection) -> None:
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL" if detail else "OFF"
        set_debug_level_from_env()
        _forked.join(rank, LAYOUT.world_size, store)
        pipe.send(functions.loop(rank, calls))

    with _forked.Forked(LAYOUT.world_size, body) as ranks:
        clocks: list[float] = [clock for clock, _ in ranks.results()]
    return sum(clocks) / LAYOUT.world_size
