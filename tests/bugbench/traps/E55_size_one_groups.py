"""Groups of a single rank, used a different number of times by each."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    x = torch.full((2,), float(rank + 1))
    for _ in range(rank + 1):
        dist.all_reduce(x, group=mpu.get_tensor_model_parallel_group())
        dist.broadcast(
            x,
            src=mpu.get_tensor_model_parallel_src_rank(),
            group=mpu.get_tensor_model_parallel_group(),
        )
    gathered = [torch.empty(2)]
    dist.all_gather(gathered, x, group=mpu.get_context_parallel_group())
    alone = [dist.new_group([each]) for each in range(2)][rank]
    if rank == 1:
        dist.barrier(group=alone)
    dist.all_reduce(gathered[0])
    return gathered[0][0].item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
