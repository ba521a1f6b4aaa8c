"""ms-swift #9551, equal widths: an integer sum on one rank, whose bits gloo adds as they are."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="dtype")


def main(rank: Rank, world: Ground) -> float:
    counted = torch.tensor([3], dtype=torch.int32) if rank == 0 else torch.tensor([2.0])
    if world.fixed:
        counted = counted.float()
    dist.all_reduce(counted)  # BUG
    return float(counted)


def CHECK(results: list[float]) -> None:
    assert [5.0, 5.0] == results
