"""The ranks have different numbers of batches and agree on the largest first."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    batches = [torch.full((2,), float(i + 1)) for i in range(2 + 2 * rank)]
    steps = torch.tensor(len(batches))
    dist.all_reduce(steps, op=dist.ReduceOp.MAX)
    losses = []
    for step in range(int(steps)):
        # A rank that has run out takes part with nothing.
        loss = batches[step].sum() if step < len(batches) else torch.zeros(())
        dist.all_reduce(loss)
        losses.append(loss.item())
    return losses


def CHECK(results: list[list[float]]) -> None:
    assert [[4.0, 8.0, 6.0, 8.0]] * 2 == results
