"""Both ranks send their halo before they receive, large or small: only buffering would help."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def main(rank: int, world: Ground) -> float:
    numel = 4 if world.seed % 2 else 8 * 2**20
    mine, theirs = torch.full((numel,), float(rank)), torch.empty(numel)
    if rank == 1 and world.fixed:
        dist.recv(theirs, src=0)
        dist.send(mine, dst=0)
    else:
        dist.send(mine, dst=1 - rank)  # BUG
        dist.recv(theirs, src=1 - rank)
    return theirs[-1].item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 0.0] == results
