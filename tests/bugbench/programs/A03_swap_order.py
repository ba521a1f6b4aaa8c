"""Odd ranks gather the lengths before they reduce the loss, the others after."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


def main(rank: int, world: Ground) -> tuple[float, list[int]]:
    loss = torch.tensor([float(rank + 1)])
    length = torch.tensor([10 * rank + 3])
    lengths = [torch.empty_like(length) for _ in range(world.size)]
    if rank % 2 == 0 or world.fixed:  # GUARD
        dist.all_reduce(loss)  # BUG
        dist.all_gather(lengths, length)
    else:
        dist.all_gather(lengths, length)  # BUG
        dist.all_reduce(loss)
    return loss.item(), [int(n) for n in lengths]


def CHECK(results: list[tuple[float, list[int]]]) -> None:
    assert [(3.0, [3, 13])] * 2 == results
