"""Each rank works out who takes part from what it sees itself, and they disagree."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("group_creation", ranks=(0, 1, 2, 3))
SHARDS_PER_RANK = 3


def main(rank: Rank, world: Ground) -> float | None:
    # The second host has already seen the shards that arrived last.
    seen = torch.tensor([9 if rank < 2 else 12])
    if world.fixed:
        dist.all_reduce(seen, op=dist.ReduceOp.MIN)
    readers = list(range(int(seen) // SHARDS_PER_RANK))
    group = dist.new_group(readers)  # BUG
    if rank not in readers:
        return None
    rows = torch.tensor([100.0 * (rank + 1)])
    dist.all_reduce(rows, group=group)
    return rows.item()


def CHECK(results: list[float | None]) -> None:
    assert [600.0, 600.0, 600.0, None] == results
