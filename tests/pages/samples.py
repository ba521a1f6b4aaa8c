"""Runs of real worlds, for the tests of pages and for the pictures in the docs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from harness import World, WorldError, _settings
from harness.record import Call, Stack, TensorInfo
from harness.report import Run
from tests.pages import functions


def run_of(function: Callable[..., Any], *args: Any, test: str, **world: Any) -> Run:
    """What reports know of a run of ``function``, whether it fails or not."""
    runs: list[Run] = []
    before = _settings.use(
        dataclasses.replace(
            _settings.current, on_run=runs.append, records_kept=20_000, explain="always"
        )
    )
    try:
        with World(**{"timeout": 60, **world}) as started:
            started.run(function, *args)
    except WorldError:
        pass
    finally:
        _settings.use(before)
    return dataclasses.replace(runs[-1], test=test)


def skip() -> Run:
    """Four ranks, one of which skips a call in the second of three steps."""
    tokens = [[3, 2, 4, 1], [2, 0, 5, 3], [1, 1, 1, 1]]
    name = "tests/test_loss.py::test_token_mean_is_global"
    return run_of(functions.train_step, tokens, test=name, dp=2, cp=2)


def cycle() -> Run:
    """Four ranks that wait for each other in a ring."""
    name = "tests/test_groups.py::test_statistics_and_gradient"
    return run_of(functions.opposite_orders, test=name, dp=2, cp=2)


def large(ranks: int = 64, steps: int = 79) -> Run:
    """Many ranks with some 512 records each."""
    name = f"tests/test_training.py::test_long_training[{ranks}]"
    size = {"tp": 4, "cp": 4, "dp": ranks // 16}
    return run_of(functions.long_training, steps, (21, steps - 6), test=name, **size)


def fine() -> Run:
    """Two ranks and no fault."""
    return run_of(functions.fine, test="tests/test_values.py::test_sum", dp=2)


def call(rank: int, number: int, stack: Stack, *, time: float) -> Call:
    """An all_reduce on the world, made by hand."""
    return Call(
        rank=rank,
        call=number,
        thread=0,
        group="0",
        index=number,
        op="all_reduce",
        reduce_op="SUM",
        root=None,
        peer=None,
        tag=None,
        inputs=(TensorInfo("float32", (1024,)),),
        outputs=(),
        input_splits=None,
        output_splits=None,
        async_op=False,
        stack=stack,
        time=time,
    )
