"""torch's MultiThreadedTestCase: threads of one process in place of ranks, and no gloo."""

from __future__ import annotations

import time
import unittest

import torch.testing._internal.distributed.multi_threaded_pg  # noqa: F401 - its backend
from torch.testing._internal.common_distributed import MultiThreadedTestCase

from tests.speed import functions


class Case(MultiThreadedTestCase):
    """One test."""

    @property
    def world_size(self) -> int:
        """Four ranks."""
        return 4

    def setUp(self) -> None:
        """Start the threads, as its users have to."""
        super().setUp()
        self._spawn_threads()  # type: ignore[no-untyped-call]

    def test_all_reduce(self) -> None:
        """One all_reduce."""
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


def open_() -> None:
    """One test that nobody counts."""
    world()
