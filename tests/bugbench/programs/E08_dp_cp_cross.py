"""Two groups with the same members, entered in opposite order."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> tuple[float, float]:
    from megatron.core import mpu

    grads = torch.full((8,), float(rank + 1))
    loss = torch.tensor([float(rank)])

    def reduce_grads() -> None:
        dist.all_reduce(grads, group=mpu.get_data_parallel_group(with_context_parallel=True))  # BUG

    def reduce_loss() -> None:
        dist.all_reduce(loss, group=mpu.get_data_parallel_group())  # BUG

    if rank == 0 and not world.fixed:  # the rank that logs wants its loss at once  # GUARD
        reduce_loss()
        reduce_grads()
    else:
        reduce_grads()
        reduce_loss()
    return grads[0].item(), loss.item()


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(3.0, 1.0)] * 2 == results
