"""A NaN on one rank is made known to all, and all break out of the loop."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> int:
    steps = 0
    for step in range(5):
        loss = torch.tensor(float("nan") if rank == 1 and step == 2 else 0.5)
        bad = torch.isnan(loss).to(torch.int32)
        dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        if bad.item():
            break
        dist.all_reduce(loss)
        steps += 1
    dist.barrier()
    return steps


def CHECK(results: list[int]) -> None:
    assert [2, 2] == results
