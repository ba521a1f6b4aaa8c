"""The rank that prints reduces over the world, the other one over its data-parallel group."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("group_mismatch", ranks=(0, 1))


def mean(value: torch.Tensor, group: dist.ProcessGroup | None) -> float:
    dist.all_reduce(value, group=group)  # BUG
    return value.item() / dist.get_world_size(group)


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    group = mpu.get_data_parallel_group()
    if rank == 0 and not world.fixed:
        group = None
    return mean(torch.tensor([float(rank + 1)]), group)


def CHECK(results: list[float]) -> None:
    assert [1.5, 1.5] == results
