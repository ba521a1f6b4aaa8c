"""Rank 1 leaves its process with code 9 while the other is in a collective."""

import os

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_died", ranks=(1,), text="exit code 9")


def load(rank: int, quota: int) -> torch.Tensor:
    if rank >= quota:  # GUARD
        print("out of licences")
        os._exit(9)  # BUG
    return torch.full((2,), float(rank))


def main(rank: int, world: Ground) -> float:
    data = load(rank, quota=2 if world.fixed else 1)
    dist.all_reduce(data)  # BUG
    return data[0].item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 1.0] == results
