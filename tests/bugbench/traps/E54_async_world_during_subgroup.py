"""A reduction of the world is in flight while a subgroup makes one of its own."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "cp": 2}


def main(rank: Rank, world: Ground) -> tuple[float, float]:
    from megatron.core import mpu

    grads = torch.full((64,), float(rank))
    work = dist.all_reduce(grads, async_op=True)
    loss = torch.tensor([1.0])
    if rank.dp == 1:
        world.pause(rank)
        dist.all_reduce(loss, group=mpu.get_context_parallel_group())
    assert work is not None
    work.wait()
    return grads[0].item(), loss.item()


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(6.0, 1.0), (6.0, 1.0), (6.0, 2.0), (6.0, 2.0)] == results
