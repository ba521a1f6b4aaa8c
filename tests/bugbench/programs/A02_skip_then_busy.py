"""Rank 0 leaves the last all_reduce out and goes on computing for a good while before it returns."""

import time

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(0,))


def summarize(loss: torch.Tensor, seconds: float) -> list[float]:
    """Fit a line through random points until the time is up, as a report writer might."""
    points = torch.rand(64, 2)
    until = time.monotonic() + seconds
    slope = torch.zeros(())
    while time.monotonic() < until:
        slope = slope - 0.1 * ((slope * points[:, 0] - points[:, 1]) * points[:, 0]).mean()
    return [loss.item(), slope.item()]


def main(rank: int, world: Ground) -> float:
    loss = torch.tensor(float(rank + 1))
    dist.all_reduce(loss)
    if rank == 0 and not world.fixed:  # GUARD
        return summarize(loss, seconds=1.3)[0]
    count = torch.tensor(8.0)
    dist.all_reduce(count)  # BUG
    if rank == 0:
        summarize(loss, seconds=1.3)
    return (loss / count).item()


def CHECK(results: list[float]) -> None:
    assert [3 / 16, 3 / 16] == results
