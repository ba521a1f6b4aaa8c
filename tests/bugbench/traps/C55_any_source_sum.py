"""Rank 0 adds up what it receives from anyone; the order makes no difference."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: int, world: Ground) -> float:
    count = torch.tensor([10**rank])
    if rank != 0:
        world.pause(rank)
        dist.send(count, dst=0)
        return 0.0
    total = count.clone()
    for _ in range(dist.get_world_size() - 1):
        dist.recv(count)
        total += count
    return total.item()


def CHECK(results: list[float]) -> None:
    assert [111, 0.0, 0.0] == results
