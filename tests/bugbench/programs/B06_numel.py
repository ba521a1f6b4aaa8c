"""The losses of each sample are reduced, but the last batch of one rank is smaller."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="shape")


def main(rank: int, world: Ground) -> float:
    samples = torch.arange(10.0)[:6] if rank == 0 else torch.arange(10.0)[6:]
    losses = samples.square()
    if world.fixed:
        losses = losses.sum(dim=0, keepdim=True)
    dist.all_reduce(losses)  # BUG
    return losses.sum().item()


def CHECK(results: list[float]) -> None:
    assert [285.0, 285.0] == results
