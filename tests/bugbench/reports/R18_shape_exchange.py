"""Megatron-LM #5100: both stages send their shape first and receive afterwards."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> list[int]:
    mine = torch.tensor([4, 16 + int(rank)])
    theirs = torch.empty_like(mine)
    neighbour = 1 - rank
    if rank.pp == 0 or not world.fixed:
        dist.send(mine, dst=neighbour)  # BUG
        dist.recv(theirs, src=neighbour)
    else:
        dist.recv(theirs, src=neighbour)
        dist.send(mine, dst=neighbour)
    return theirs.tolist()


def CHECK(results: list[list[int]]) -> None:
    assert [[4, 17], [4, 16]] == results
