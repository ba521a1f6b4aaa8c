"""ms-swift #9551: a sum that became a numpy float64 makes a float64 tensor on one rank."""

import numpy as np
import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="dtype")


class MeanMetric:
    def __init__(self) -> None:
        self.sum: float | np.float64 = 0.0
        self.count = 0

    def update(self, value: float | np.float64) -> None:
        self.sum += value
        self.count += 1

    def compute(self, dtype: torch.dtype | None = None) -> float:
        state = torch.tensor([self.sum, self.count], dtype=dtype)
        dist.all_reduce(state)  # BUG
        return (state[0] / state[1]).item()


def main(rank: Rank, world: Ground) -> float:
    metric = MeanMetric()
    metric.update(1.0 if rank == 0 else np.float64(2.0))
    return metric.compute(torch.float32 if world.fixed else None)


def CHECK(results: list[float]) -> None:
    assert [1.5, 1.5] == results
