"""Megatron-LM #5100, on a ring: all three stages receive before they send."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 3}
EXPECT = Expect("deadlock", ranks=(0, 1, 2))


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    before = mpu.get_pipeline_model_parallel_prev_rank()
    after = mpu.get_pipeline_model_parallel_next_rank()
    mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
    if world.fixed and rank.pp == 0:
        dist.send(mine, dst=after)
        dist.recv(theirs, src=before)
    else:
        dist.recv(theirs, src=before)  # BUG
        dist.send(mine, dst=after)
    return theirs[0].item()


def CHECK(results: list[float]) -> None:
    assert [2.0, 0.0, 1.0] == results
