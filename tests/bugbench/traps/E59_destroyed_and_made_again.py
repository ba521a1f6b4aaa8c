"""A group is destroyed and made again in every epoch."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: Rank, world: Ground) -> float:
    total = 0.0
    for epoch in range(4):
        readers = dist.new_group([0, 2])
        if rank != 1:
            rows = torch.tensor([float(rank + epoch)])
            dist.all_reduce(rows, group=readers)
            total += rows.item()
            dist.destroy_process_group(readers)
    dist.barrier()
    return total


def CHECK(results: list[float]) -> None:
    assert [20.0, 0.0, 20.0] == results
