"""Rank 0 broadcasts the parameters where the others average them; shape and dtype agree."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    weight = torch.arange(4.0) if rank == 0 else torch.zeros(4)
    restored = rank == 0
    if restored and not world.fixed:  # GUARD
        dist.broadcast(weight, src=0)  # BUG
    else:
        dist.all_reduce(weight)  # BUG
    return [float(x) for x in weight]


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 1.0, 2.0, 3.0]] * 2 == results
