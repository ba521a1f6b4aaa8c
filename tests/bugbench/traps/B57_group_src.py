"""The source is given as a rank of the group by one, and as the equal global rank by the other."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "tp": 2}


def main(rank: Rank, world: Ground) -> int:
    group = rank.group("dp")
    seed = torch.tensor([1000 + rank])
    if rank.dp == 0:
        dist.broadcast(seed, group=group, group_src=1)
    else:
        dist.broadcast(seed, src=dist.get_global_rank(group, 1), group=group)
    return int(seed)


def CHECK(results: list[int]) -> None:
    assert [1002, 1003, 1002, 1003] == results
