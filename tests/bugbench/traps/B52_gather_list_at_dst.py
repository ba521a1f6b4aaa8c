"""Only the destination of a gather, and the source of a scatter, has a list."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: int, world: Ground) -> tuple[list[float], float]:
    mine = torch.tensor([float(rank)])
    if rank == 1:
        parts = [torch.zeros(1) for _ in range(3)]
        dist.gather(mine, parts, dst=1)
    else:
        parts = []
        dist.gather(mine, dst=1)
    share = torch.zeros(1)
    dist.scatter(share, [part * 2 for part in parts] if rank == 1 else None, src=1)
    return [part.item() for part in parts], share.item()


def CHECK(results: list[tuple[list[float], float]]) -> None:
    assert [([], 0.0), ([0.0, 1.0, 2.0], 2.0), ([], 4.0)] == results
