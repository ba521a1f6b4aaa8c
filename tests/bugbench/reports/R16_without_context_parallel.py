"""slime #2235: advantages are centred over the data-parallel group without context parallelism."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "cp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1, 2, 3))


def main(rank: Rank, world: Ground) -> list[float]:
    from megatron.core import mpu

    advantages = torch.tensor([1.0, 2.0] if rank.cp == 0 else [10.0, 20.0])
    group = mpu.get_data_parallel_group(with_context_parallel=world.fixed)
    stats = torch.stack([advantages.sum(), torch.tensor(float(advantages.numel()))])
    dist.all_reduce(stats, group=group)  # BUG
    mean = stats[0] / stats[1]
    harness.expect_same("mean", mean, over="dp-cp")  # BUG
    return (advantages - mean).tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[-7.25, -6.25], [1.75, 11.75]] * 2 == results
