"""ART #919: the source is the index inside the context-parallel group, not a global rank."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"tp": 2, "cp": 2}
EXPECT = Expect("rank_raised", ranks=(0, 2), text="not part of group")


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    members = mpu.get_context_parallel_global_ranks()
    last = len(members) - 1
    source = members[last] if world.fixed else last
    state = torch.tensor([float(rank)])
    dist.broadcast(state, src=source, group=mpu.get_context_parallel_group())  # GUARD # BUG
    return state.item()


def CHECK(results: list[float]) -> None:
    assert [2.0, 3.0, 2.0, 3.0] == results
