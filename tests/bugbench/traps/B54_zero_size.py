"""Tensors without elements take part like any other."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> tuple[int, float]:
    frozen = torch.zeros(0)
    dist.all_reduce(frozen)
    dist.broadcast(frozen, src=0)
    parts = [torch.zeros(0, 3) for _ in range(2)]
    dist.all_gather(parts, torch.zeros(0, 3))
    loss = torch.tensor(float(rank + 1))
    dist.all_reduce(loss)
    return torch.cat(parts).numel(), loss.item()


def CHECK(results: list[tuple[int, float]]) -> None:
    assert [(0, 3.0), (0, 3.0)] == results
