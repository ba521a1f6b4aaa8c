"""One tensor stands under two names in the metrics, and is reduced twice."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("aliased_reduction", ranks=(0, 1))


def main(rank: int, world: Ground) -> float:
    correct, total = torch.tensor(3.0), torch.tensor(4.0)
    conditional = correct.clone() if world.fixed else correct
    metrics = {"correct": correct, "conditional": conditional, "total": total}
    for value in metrics.values():
        dist.all_reduce(value)  # BUG
    return (metrics["correct"] / metrics["total"]).item()


def CHECK(results: list[float]) -> None:
    assert [0.75, 0.75] == results
