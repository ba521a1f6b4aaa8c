"""The first and the last of three stages add up their tied embedding; the middle one does not."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"pp": 3, "dp": 2}


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    grad = torch.full((4,), float(rank.pp + 1))
    dist.all_reduce(grad, group=mpu.get_data_parallel_group())
    if mpu.is_rank_in_embedding_group():
        dist.all_reduce(grad, group=mpu.get_embedding_group())
    dist.barrier()
    return grad[0].item()


def CHECK(results: list[float]) -> None:
    assert [8.0, 8.0, 4.0, 4.0, 8.0, 8.0] == results
