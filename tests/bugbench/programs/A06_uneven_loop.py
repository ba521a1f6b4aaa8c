"""Each rank walks its own batches; rank 0 has two of them, rank 1 has three."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(0,), text="call 3")


def shard(rank: int, drop_last: bool) -> list[torch.Tensor]:
    samples = torch.arange(10.0)[rank * 4 :][: 4 if rank == 0 else 6]
    batches = list(torch.split(samples, 2))
    return batches[:2] if drop_last else batches


def main(rank: int, world: Ground) -> list[float]:
    means = []
    for batch in shard(rank, drop_last=world.fixed):  # GUARD
        mean = batch.mean()
        dist.all_reduce(mean)  # BUG
        means.append(mean.item() / world.size)
    return means


def CHECK(results: list[list[float]]) -> None:
    assert [[2.5, 4.5]] * 2 == results
