"""Rank 1 steps its optimizer without ever waiting for the reduced gradients."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("work_not_waited", ranks=(1,))


def main(rank: int, world: Ground) -> float:
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    (weight * (1.0 + rank)).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    work = dist.all_reduce(weight.grad, op=dist.ReduceOp.SUM, async_op=True)  # BUG
    overlap = rank == 1
    if not overlap or world.fixed:
        work.wait()
    optimizer.step()
    return weight[0].item()


def CHECK(results: list[float]) -> None:
    assert [-0.5, -0.5] == results
