"""Rank 1 is stopped (SIGSTOP) before the collective, as a debugger or a job manager does it."""

import os
import signal

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "timeout": 2.0}
EXPECT = Expect("straggler", ranks=(1,))


def yield_to_scheduler(preempted: bool) -> None:
    if preempted:  # GUARD
        os.kill(os.getpid(), signal.SIGSTOP)  # BUG


def main(rank: int, world: Ground) -> float:
    value = torch.tensor(float(rank + 1))
    dist.all_reduce(value)
    yield_to_scheduler(preempted=rank == 1 and not world.fixed)
    dist.all_reduce(value)  # BUG
    return value.item()


def CHECK(results: list[float]) -> None:
    assert [6.0, 6.0] == results
