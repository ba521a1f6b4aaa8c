"""Rank 0 catches the error of a collective that timed out without rank 1, and goes on."""

import time
from datetime import timedelta

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="call 2")


class Throughput:
    """Tokens per second over all ranks, on a group that gives up early."""

    def __init__(self) -> None:
        self.group = dist.new_group([0, 1], timeout=timedelta(seconds=0.6))

    def total(self, own: float) -> float:
        value = torch.tensor(own)
        try:
            dist.all_reduce(value, group=self.group)  # BUG
        except RuntimeError as error:
            print(f"throughput is this rank's alone: {error}")
        return value.item()


def main(rank: int, world: Ground) -> list[float]:
    throughput = Throughput()
    seen = []
    for step in range(2):
        if rank == 0 or step == 0 or world.fixed:  # GUARD
            seen.append(throughput.total(50.0))
        if rank == 1 and step == 1:
            time.sleep(1.1)  # the validation set is read on this rank
        loss = torch.tensor(float(rank + 1))
        dist.all_reduce(loss)
        seen.append(loss.item())
    return seen


def CHECK(results: list[list[float]]) -> None:
    assert [[100.0, 3.0, 100.0, 3.0]] * 2 == results
