"""torch's MultiProcessTestCase: ranks spawned for each test."""

from __future__ import annotations

import time
import unittest
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore
from torch.testing._internal.common_distributed import MultiProcessTestCase

from tests.speed import _forked, functions


class Case(MultiProcessTestCase):
    """One test."""

    @property
    def world_size(self) -> int:
        """Four ranks."""
        return 4

    def setUp(self) -> None:
        """Start the ranks, as its users have to."""
        super().setUp()
        self._spawn_processes()

    def test_all_reduce(self) -> None:
        """One all_reduce."""
        dist.init_process_group(
            "gloo",
            store=FileStore(self.file_name, self.world_size),
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=_forked.WITHIN),
        )
        functions.check([functions.one_all_reduce(self.rank)] * 4, 4)


def world() -> float:
    """Seconds for one test, as unittest runs it."""
    result = unittest.TestResult()
    started = time.perf_counter()
    Case("test_all_reduce").run(result)  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - started
    if not result.wasSuccessful() or result.skipped:
        raise RuntimeError(f"{result.errors}{result.failures}{result.skipped}")
    return seconds
