"""DeepSpeed #6809: the capacity of an expert follows the local tokens, so buffers differ."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "ep": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="shape|splits")


def main(rank: Rank, world: Ground) -> list[float]:
    group = rank.group("ep")
    capacity = torch.tensor(3 + int(rank))
    if world.fixed:
        dist.all_reduce(capacity, op=dist.ReduceOp.MAX, group=group)
    tokens = torch.full((2, int(capacity)), float(rank + 1))
    dispatched = torch.empty_like(tokens)
    dist.all_to_all_single(dispatched, tokens, group=group)  # BUG
    return dispatched.sum(-1).tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[4.0, 8.0]] * 2 == results
