"""pytorch-lightning #21859: the mean over an integer counter drops its fraction."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))


def mean(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value)  # BUG
    return value.copy_(value / dist.get_world_size())


def main(rank: Rank, world: Ground) -> float:
    batches = torch.tensor(3 + int(rank), dtype=torch.float64 if world.fixed else torch.int64)
    summed = torch.tensor(7.0)
    metric = mean(summed) / mean(batches)
    harness.expect("metric", metric, 2.0)  # BUG
    return metric.item()


def CHECK(results: list[float]) -> None:
    assert [2.0, 2.0] == results
