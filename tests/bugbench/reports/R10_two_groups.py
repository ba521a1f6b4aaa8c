"""torchrec #4149: an all_to_all on one group and an all_reduce on another, in either order."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> tuple[list[float], float]:
    sharded, replicated = dist.new_group([0, 1]), dist.new_group([0, 1])
    rows = torch.arange(2.0) + 10 * rank
    looked_up = torch.empty(2)
    dense = torch.full((4,), float(rank + 1))
    if rank == 0 or world.fixed:  # GUARD
        dist.all_to_all_single(looked_up, rows, group=sharded)  # BUG
        dist.all_reduce(dense, group=replicated)
    else:
        dist.all_reduce(dense, group=replicated)  # BUG
        dist.all_to_all_single(looked_up, rows, group=sharded)
    return looked_up.tolist(), dense[0].item()


def CHECK(results: list[tuple[list[float], float]]) -> None:
    assert [([0.0, 10.0], 3.0), ([1.0, 11.0], 3.0)] == results
