"""Gradients are summed over the replicas and never divided by their number."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("value_mismatch", ranks=(0, 1, 2, 3))
ROWS = torch.arange(8, dtype=torch.float32).view(4, 2)


def gradient(rows: torch.Tensor) -> torch.Tensor:
    weight = torch.ones(2, requires_grad=True)
    ((rows * weight).sum(-1) ** 2).mean().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    return weight.grad


def main(rank: Rank, world: Ground) -> list[float]:
    grad = gradient(ROWS[rank : rank + 1])
    dist.all_reduce(grad)  # BUG
    if world.fixed:
        grad /= rank.world_size
    harness.expect("gradient", grad, gradient(ROWS), rtol=1e-6)  # BUG
    return grad.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [gradient(ROWS).tolist()] * 4 == results
