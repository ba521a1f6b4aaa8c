"""torch's MultiProcContinuousTest: ranks spawned once for a class, tests sent to them by name."""

from __future__ import annotations

import time
import unittest

import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcContinuousTest

from tests.speed import functions


class Continuous(MultiProcContinuousTest):
    """One test, run as often as is asked."""

    world_size = 4

    @classmethod
    def backend_str(cls) -> str:
        """gloo, for torch would choose by itself."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """No accelerator is looked for."""
        return "cpu"

    def test_all_reduce(self) -> None:
        """One all_reduce."""
        functions.check([functions.one_all_reduce(dist.get_rank())] * 4, 4)


def first() -> float:
    """Seconds for the start of the ranks and the first test."""
    Continuous._processes_spawned = False
    started = time.perf_counter()
    Continuous.setUpClass()  # type: ignore[no-untyped-call]
    _run()
    return time.perf_counter() - started


def tests(times: int) -> list[float]:
    """Seconds for each of some more tests in a row, as unittest runs them."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        _run()
        found.append(time.perf_counter() - started)
    return found


def tests_alone(times: int) -> list[float]:
    """Seconds for the sending of each test and its end, with nothing of unittest's own."""
    found = []
    for _ in range(times):
        case = Continuous("test_all_reduce")
        started = time.perf_counter()
        case.setUp()
        case.test_all_reduce()
        found.append(time.perf_counter() - started)
    return found


def last() -> float:
    """Seconds until the ranks have ended."""
    started = time.perf_counter()
    Continuous.tearDownClass()  # type: ignore[no-untyped-call]
    return time.perf_counter() - started


def world() -> float:
    """Seconds for a class of one test."""
    return first() + last()


def _run() -> None:
    result = unittest.TestResult()
    Continuous("test_all_reduce").run(result)  # type: ignore[no-untyped-call]
    if not result.wasSuccessful() or result.skipped:
        raise RuntimeError(f"{result.errors}{result.failures}{result.skipped}")
