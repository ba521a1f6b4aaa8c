"""A gradient is divided by the world size while its reduction is still in flight."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> float:
    grad = torch.full((1000,), 2.0 + 4 * rank)
    work = dist.all_reduce(grad, async_op=True)  # BUG
    if world.fixed:
        work.wait()
    grad /= dist.get_world_size()  # BUG
    work.wait()
    return grad[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
