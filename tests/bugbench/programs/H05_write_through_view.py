"""A view of a flat buffer is scaled while the buffer is being reduced."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    flat = torch.ones(1 << 16)
    weight, bias = torch.split(flat, [(1 << 16) - 8, 8])
    work = dist.all_reduce(flat, async_op=True)  # BUG
    assert work is not None
    if world.fixed:
        work.wait()
    bias.view(2, 4).mul_(0.5)  # BUG
    if not world.fixed:
        work.wait()
    return [weight[0].item(), bias[0].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[2.0, 1.0]] * 2 == results
