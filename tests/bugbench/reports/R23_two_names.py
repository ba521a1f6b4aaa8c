"""speculators #759: one tensor under two metric names is reduced twice."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("aliased_reduction", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> float:
    correct, total = torch.tensor(3.0), torch.tensor(4.0)
    metrics = {
        "full": correct,
        "cond": correct.clone() if world.fixed else correct,
        "total": total,
    }
    for value in metrics.values():
        dist.all_reduce(value)  # BUG
    return (metrics["full"] / metrics["total"]).item()


def CHECK(results: list[float]) -> None:
    assert [0.75, 0.75] == results
