"""A ring of isend and irecv, all posted before any is waited for."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"cp": 3}


def main(rank: int, world: Ground) -> float:
    size = dist.get_world_size()
    block, total = torch.full((4,), float(rank + 1)), 0.0
    for _ in range(size):
        total += block[0].item()
        incoming = torch.empty_like(block)
        works = [
            dist.isend(block, dst=(rank + 1) % size),
            dist.irecv(incoming, src=(rank - 1) % size),
        ]
        for work in works:
            assert work is not None
            work.wait()
        block = incoming
    return total


def CHECK(results: list[float]) -> None:
    assert [6.0] * 3 == results
