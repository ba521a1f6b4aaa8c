"""Hooks reduce each gradient, and the step reduces the flat bucket of them once more."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))


def reduce_one(grad: torch.Tensor) -> None:
    dist.all_reduce(grad)


def reduce_bucket(grads: list[torch.Tensor]) -> None:
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)  # BUG
    sizes = [grad.numel() for grad in grads]
    for grad, summed in zip(grads, torch.split(flat, sizes), strict=True):
        grad.copy_(summed.view_as(grad))


def main(rank: Rank, world: Ground) -> list[float]:
    grads = [torch.full((3,), float(rank + 1)), torch.full((2, 2), 10.0 * (rank + 1))]
    for grad in grads:
        reduce_one(grad)
    if not world.fixed:
        reduce_bucket(grads)
    harness.expect("bias gradient", grads[0], torch.full((3,), 3.0))  # BUG
    return [grad.flatten()[0].item() for grad in grads]


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 30.0]] * 2 == results
