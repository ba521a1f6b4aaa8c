"""Python's forkserver with torch preloaded: what a careful author writes without a library."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time

from tests.speed import _forked, _ranks, functions

SIZE = 4
_context = multiprocessing.get_context("forkserver")


def open_() -> None:
    """Start the server with torch in it; one world that nobody counts."""
    _context.set_forkserver_preload(["torch", "torch.distributed"])
    world()


def world() -> float:
    """Seconds for one world."""
    started = time.perf_counter()
    store = tempfile.mkdtemp(prefix="tests-speed-")
    queue = _context.SimpleQueue()
    processes = [
        _context.Process(target=_ranks.sent, args=(rank, SIZE, store, queue))
        for rank in range(SIZE)
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(_forked.WITHIN)
            if process.exitcode != 0:
                raise RuntimeError(f"a rank ended with {process.exitcode}")
        results = dict(queue.get() for _ in processes)
    finally:
        for process in processes:
            process.kill()
        shutil.rmtree(store, ignore_errors=True)
    seconds = time.perf_counter() - started
    functions.check([results[rank] for rank in range(SIZE)], SIZE)
    return seconds
