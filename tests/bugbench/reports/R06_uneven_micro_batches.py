"""EasyR1 #11012: a rank with fewer samples than the agreed number of micro-batches fails."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(1,), text="AssertionError")


def split(samples: list[float], *, pad: bool) -> list[float]:
    count = torch.tensor(len(samples))
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    if pad:
        samples = samples + [0.0] * (int(count) - len(samples))
    assert int(count) <= len(samples), "more micro-batches than samples"  # GUARD # BUG
    return samples


def main(rank: Rank, world: Ground) -> float:
    samples = [1.0, 2.0, 3.0] if rank == 0 else [10.0]
    total = 0.0
    for sample in split(samples, pad=world.fixed):
        grad = torch.full((4,), sample)
        dist.all_reduce(grad)
        total += grad[0].item()
    return total


def CHECK(results: list[float]) -> None:
    assert [16.0, 16.0] == results
