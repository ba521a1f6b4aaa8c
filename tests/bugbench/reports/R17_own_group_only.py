"""Megatron-Bridge #4985: each rank makes the one group that it is in, in the same slot."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "tp": 2}
EXPECT = Expect("group_creation", ranks=(0, 1, 2, 3))
EMBEDDING_RANKS = ([0, 2], [1, 3])


def main(rank: Rank, world: Ground) -> float:
    mine = None
    for members in EMBEDDING_RANKS:
        if rank in members or world.fixed:  # GUARD
            group = dist.new_group(members)  # BUG
            if rank in members:
                mine = group
    grad = torch.tensor([float(rank + 1)])
    dist.all_reduce(grad, group=mine)
    return grad.item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 6.0, 4.0, 6.0] == results
