"""The first rank of a data-parallel group is given as src 0, which is read as a global rank."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "tp": 2}
EXPECT = Expect("rank_raised", ranks=(1, 3), text="is not part of group")


def main(rank: Rank, world: Ground) -> int:
    group = rank.group("dp")
    seed = torch.tensor([1000 + rank])
    src = dist.get_global_rank(group, 0) if world.fixed else 0
    dist.broadcast(seed, src=src, group=group)  # GUARD # BUG
    return int(seed)


def CHECK(results: list[int]) -> None:
    assert [1000, 1001, 1000, 1001] == results
