"""A ring of blocking calls: even ranks send first, odd ranks receive first."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"cp": 4}


def main(rank: int, world: Ground) -> float:
    size = dist.get_world_size()
    left, right = (rank - 1) % size, (rank + 1) % size
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    if rank % 2 == 0:
        dist.send(mine, dst=right)
        dist.recv(theirs, src=left)
    else:
        dist.recv(theirs, src=left)
        dist.send(mine, dst=right)
    return theirs[0].item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 0.0, 1.0, 2.0] == results
