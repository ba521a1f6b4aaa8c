"""``torch.multiprocessing.spawn`` with a bounded join, as the tests of RL repositories have it."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from typing import Any

from torch.multiprocessing.spawn import spawn as torch_spawn

from tests.speed import _forked, _ranks, functions

SIZE = 4


def world() -> float:
    """Seconds for one world."""
    started = time.perf_counter()
    store = tempfile.mkdtemp(prefix="tests-speed-")
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    context: Any = torch_spawn(  # type: ignore[no-untyped-call]
        _ranks.sent, args=(SIZE, store, queue), nprocs=SIZE, join=False
    )
    until = started + _forked.WITHIN
    try:
        while not context.join(timeout=1):
            if time.perf_counter() > until:
                raise TimeoutError(f"the ranks did not end within {_forked.WITHIN:g} s")
        results = dict(queue.get() for _ in range(SIZE))
    finally:
        for process in context.processes:
            process.kill()
        shutil.rmtree(store, ignore_errors=True)
    seconds = time.perf_counter() - started
    functions.check([results[rank] for rank in range(SIZE)], SIZE)
    return seconds
