"""A pool of processes as DeepSpeed's DistributedTest has it, which lives from test to test.

With its ``reuse_dist_env`` the group of the first test stays, too (`kept`); here it is also
measured with a group of its own for each test (`world`). The half second that DeepSpeed sleeps
after each test is left out.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from typing import Any

from tests.speed import _forked, _ranks, functions

SIZE = 4
_context = multiprocessing.get_context("forkserver")
_pools: list[Any] = []


def open_() -> None:
    """Start the pools and give each a test that nobody counts."""
    _context.set_forkserver_preload(["torch", "torch.distributed"])
    _pools.extend(_context.Pool(SIZE) for _ in range(2))
    world()
    kept()


def world() -> float:
    """Seconds for one test that joins a group, uses it and destroys it."""
    return _timed(_pools[0], _ranks.joined)


def kept() -> float:
    """Seconds for one test on the group that the first one made."""
    return _timed(_pools[1], _ranks.joined_once)


def _timed(pool: Any, function: Any) -> float:
    started = time.perf_counter()
    store = tempfile.mkdtemp(prefix="tests-speed-")
    arguments = [(rank, SIZE, store) for rank in range(SIZE)]
    # One task blocks its process until the others have theirs, so each process gets one.
    results = pool.starmap_async(function, arguments, chunksize=1).get(_forked.WITHIN)
    shutil.rmtree(store, ignore_errors=True)
    seconds = time.perf_counter() - started
    functions.check(results, SIZE)
    return seconds


def close_() -> None:
    """End the pools."""
    for pool in _pools:
        pool.terminate()
        pool.join()
