"""Each rank makes the pair it belongs to first, so the order of creation differs by rank."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("group_creation", ranks=(0, 1, 2, 3))


def main(rank: Rank, world: Ground) -> float:
    pairs = [[0, 1], [2, 3]]
    if not world.fixed:
        pairs.sort(key=lambda pair: rank not in pair)
    mine = None
    for pair in pairs:
        group = dist.new_group(pair)  # BUG
        if rank in pair:
            mine = group
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=mine)
    return total.item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 1.0, 5.0, 5.0] == results
