"""Values differ from rank to rank because they are meant to: shards, and noise of their own."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "tp": 2}


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    full = torch.arange(8, dtype=torch.float32)
    shard = full.chunk(mpu.get_tensor_model_parallel_world_size())[rank.tp].clone()
    dist.all_reduce(shard, group=mpu.get_data_parallel_group())
    shard /= mpu.get_data_parallel_world_size()
    harness.expect("shard", shard, full[4 * rank.tp : 4 * rank.tp + 4])
    harness.expect_same("shard over the replicas", shard, over="dp")
    torch.manual_seed(100 + int(rank))
    return torch.rand(1).item()


def CHECK(results: list[float]) -> None:
    assert 4 == len(set(results))
