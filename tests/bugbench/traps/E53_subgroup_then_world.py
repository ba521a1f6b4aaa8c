"""A collective on a subgroup, then a barrier of the world."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 4}


def main(rank: Rank, world: Ground) -> float:
    savers = dist.new_group([1, 3])
    size = torch.tensor([float(rank)])
    if rank in (1, 3):
        dist.all_reduce(size, group=savers)
        world.pause(rank)
    dist.barrier()
    return size.item()


def CHECK(results: list[float]) -> None:
    assert [0.0, 4.0, 2.0, 4.0] == results
