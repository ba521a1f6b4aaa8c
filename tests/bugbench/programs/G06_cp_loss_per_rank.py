"""A loss over context-parallel slices is averaged per rank first, not per token."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"cp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))
LOSSES = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
FIRST = 4  # the tokens of rank 0; the response ends early in the slice of rank 1


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    mine = LOSSES[:FIRST] if rank.cp == 0 else LOSSES[FIRST:]
    if world.fixed:
        parts = torch.stack([mine.sum(), torch.tensor(float(mine.numel()))])
    else:
        parts = torch.stack([mine.mean(), torch.tensor(1.0)])
    dist.all_reduce(parts, group=mpu.get_context_parallel_group())  # BUG
    loss = parts[0] / parts[1]
    harness.expect("loss", loss, LOSSES.mean(), rtol=1e-6)  # BUG
    return loss.item()


def CHECK(results: list[float]) -> None:
    assert [3.5, 3.5] == results
