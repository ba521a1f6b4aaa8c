"""Rank 1 never comes out of a loop of its own; it is late, and no deadlock."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "timeout": 2.0}
EXPECT = Expect("straggler", ranks=(1,))


def square_root(value: float, tolerance: float) -> float:
    guess = torch.tensor(value)
    while (guess * guess - value).abs() > tolerance:  # GUARD # BUG
        guess = (guess + value / guess) / 2  # BUG
    return guess.item()


def main(rank: int, world: Ground) -> float:
    # Float32 cannot come closer to the square root of two than 1e-7 or so.
    tolerance = 1e-4 if rank == 0 or world.fixed else 1e-12
    root = torch.tensor(square_root(2.0, tolerance))
    dist.all_reduce(root)
    return root.item() / world.size


def CHECK(results: list[float]) -> None:
    assert all(abs(root - 2**0.5) < 1e-4 for root in results)
