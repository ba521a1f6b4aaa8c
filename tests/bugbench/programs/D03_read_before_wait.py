"""The mean of a buffer is taken before the reduction into it has been waited for."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> float:
    losses = torch.full((8,), 1.0 + rank)
    work = dist.all_reduce(losses, async_op=True)  # BUG
    if world.fixed:
        work.wait()
    mean = losses.mean().item()  # BUG
    work.wait()
    return mean


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
