"""Rank 0 does not call one all_reduce and returns."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(0,))


def main(rank: int, world: Ground) -> float:
    value = torch.ones(4)
    dist.all_reduce(value)
    if rank != 0 or world.fixed:  # GUARD
        dist.all_reduce(value)  # BUG
    return value[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
