"""TensorRT-LLM #14020: a local count of free blocks decides who enters a status gather."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"tp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))
NEEDED = 3


def main(rank: Rank, world: Ground) -> tuple[list[int], float]:
    group = rank.group("tp")
    free = torch.tensor([2 if rank == 0 else 3])
    if world.fixed:
        dist.all_reduce(free, op=dist.ReduceOp.MIN, group=group)
    statuses: list[torch.Tensor] = []
    if free < NEEDED:  # GUARD
        statuses = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
        dist.all_gather(statuses, torch.tensor([int(rank)]), group=group)  # BUG
    activation = torch.full((4,), float(rank + 1))
    dist.all_reduce(activation, group=group)  # BUG
    return [int(status) for status in statuses], activation[0].item()


def CHECK(results: list[tuple[list[int], float]]) -> None:
    assert [([0, 1], 3.0)] * 2 == results
