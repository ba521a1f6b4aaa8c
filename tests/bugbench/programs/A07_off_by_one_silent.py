"""Rank 1 swallows an error and leaves out a gradient, and makes up for the count with a stray call."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("misaligned_calls", ranks=(1,))


def backward(rank: int, step: int, broken: bool) -> torch.Tensor:
    if broken and rank == 1 and step == 1:  # GUARD
        raise FloatingPointError("loss scale too high")
    return torch.full((3,), float(step + 1))


def reduce_gradient(gradient: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(gradient)  # BUG
    return gradient


def report_skipped(skipped: int) -> int:
    total = torch.full((3,), float(skipped))
    dist.all_reduce(total)  # BUG
    return int(total[0])


def main(rank: int, world: Ground) -> list[float]:
    skipped = 0
    weight = torch.zeros(3)
    for step in range(3):
        try:
            gradient = backward(rank, step, broken=not world.fixed)  # GUARD
            weight -= reduce_gradient(gradient) / world.size
        except FloatingPointError:
            skipped += 1
    if skipped:
        report_skipped(skipped)
    return [float(x) for x in weight]


def CHECK(results: list[list[float]]) -> None:
    assert [[-6.0] * 3] * 3 == results
