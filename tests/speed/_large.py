"""What is done with 64 ranks, whoever has started them: their groups, and the whitening laws."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from harness.suites import whitening
from tests.speed import functions
from tests.speed._plain import Kept
from tests.suites import whiten_functions

DP, CP = 32, 2

W = TypeVar("W", bound=AbstractContextManager[Any])


def acts(worlds: Kept[W], pids: Callable[[Any], list[int]]) -> dict[str, float]:
    """Seconds of each part, and the MiB of a rank (its share of what is shared counted in)."""
    clock = time.perf_counter
    try:
        started = clock()
        with worlds(DP, CP) as made:
            world: Any = made
            wrong = [message for message in world.run(functions.use_groups) if message]
            grouped = clock()
            memory = [pss(pid) for pid in pids(world)]
        measured = clock()
        broken = whitening.check_all(whiten_functions.whiten, [(DP, CP)], world_factory=worlds)
        checked = clock()
    finally:
        worlds.close()
    ended = clock()
    if wrong or broken:
        raise ValueError(wrong[0] if wrong else f"a correct function breaks {sorted(broken)}")
    return {
        "start_and_groups": grouped - started,
        "laws": checked - measured,
        "end": ended - checked,
        "whole": ended - started - (measured - grouped),
        "without_laws": grouped - started + ended - checked,
        "pss": sum(memory) / len(memory),
    }


def pss(pid: int) -> float:
    """The proportional set size of a process in MiB: a page that n processes map counts 1/n."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no Pss of {pid}")
