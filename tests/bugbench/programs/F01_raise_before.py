"""Rank 1 raises a ValueError on its way to the collective."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(1,), text="ValueError: negative length: -3")


def total_length(lengths: list[int]) -> int:
    for length in lengths:
        if length < 0:  # GUARD
            raise ValueError(f"negative length: {length}")  # BUG
    total = torch.tensor(sum(lengths))
    dist.all_reduce(total)
    return int(total)


def main(rank: int, world: Ground) -> int:
    lengths = [4, 6] if rank == 0 else [5, 3 if world.fixed else -3]
    return total_length(lengths)


def CHECK(results: list[int]) -> None:
    assert [18, 18] == results
