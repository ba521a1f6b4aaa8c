"""Overlapping groups, entered by every rank in one order."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 4}
LISTS = [[0, 1, 2], [1, 2, 3], [0, 3], [1, 2]]


def main(rank: Rank, world: Ground) -> list[float]:
    groups = [dist.new_group(members) for members in LISTS]
    sums = []
    for members, group in zip(LISTS, groups, strict=True):
        if rank in members:
            value = torch.tensor([float(rank)])
            dist.all_reduce(value, group=group)
            sums.append(value.item())
            world.pause(rank)
    return sums


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 3.0], [3.0, 6.0, 3.0], [3.0, 6.0, 3.0], [6.0, 3.0]] == results
