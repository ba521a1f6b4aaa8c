"""Every rank averages its gradient over the tensor-parallel group instead of the replicas."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "tp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1, 2, 3))


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    shard = torch.full((3,), float(10 * rank.tp + rank.dp))
    tensor, data = mpu.get_tensor_model_parallel_group(), mpu.get_data_parallel_group()
    group = data if world.fixed else tensor
    dist.all_reduce(shard, group=group)  # BUG
    shard /= dist.get_world_size(group)
    harness.expect_same("averaged gradient", shard, over="dp")  # BUG
    return shard[0].item()


def CHECK(results: list[float]) -> None:
    assert [0.5, 10.5, 0.5, 10.5] == results
