"""Only the members of a group make it; the other ranks skip new_group."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("group_creation", ranks=(2, 3))
EVALUATORS = [0, 1]


def main(rank: Rank, world: Ground) -> float:
    score = torch.tensor([float(rank + 1)])
    if rank in EVALUATORS or world.fixed:  # GUARD
        evaluators = dist.new_group(EVALUATORS)  # BUG
    if rank in EVALUATORS:
        dist.all_reduce(score, group=evaluators)
    dist.broadcast(score, src=0)
    return score.item()


def CHECK(results: list[float]) -> None:
    assert [3.0] * 4 == results
