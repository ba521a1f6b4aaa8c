"""One rank takes its time before every call; that is not a fault."""

import time

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> float:
    if rank == 1:
        time.sleep(1.2)
    loss = torch.tensor(float(rank))
    dist.all_reduce(loss)
    if rank == 1:
        time.sleep(0.3)
    dist.barrier()
    return loss.item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 1.0] == results
