"""Rank 1 receives before the barrier what rank 0 sends only after it."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    vocabulary = torch.arange(3.0) if rank == 0 else torch.zeros(3)
    if rank == 0:  # GUARD
        if world.fixed:
            dist.send(vocabulary, dst=1)
            dist.barrier()
        else:
            dist.barrier()  # BUG
            dist.send(vocabulary, dst=1)
    else:
        dist.recv(vocabulary, src=0)  # BUG
        dist.barrier()
    return vocabulary.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 1.0, 2.0]] * 2 == results
