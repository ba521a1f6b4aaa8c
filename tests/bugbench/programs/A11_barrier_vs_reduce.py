"""Rank 0 waits at a barrier where rank 1 reduces the number of files."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


def main(rank: int, world: Ground) -> int:
    files = torch.tensor(3 + rank)
    if rank == 0 and not world.fixed:  # GUARD
        dist.barrier()  # BUG
    else:
        dist.all_reduce(files)  # BUG
    return int(files)


def CHECK(results: list[int]) -> None:
    assert [7, 7] == results
