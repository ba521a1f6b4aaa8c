"""Two buffers take turns: one is filled while the other is in flight."""

from typing import Any

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    buffers = torch.zeros(4), torch.zeros(4)
    works: list[Any] = [None, None]
    sums = []
    for step in range(6):
        turn = step % 2
        if works[turn] is not None:
            works[turn].wait()
            sums.append(buffers[turn][0].item())
        buffers[turn].fill_(step + rank)
        works[turn] = dist.all_reduce(buffers[turn], async_op=True)
    for turn in (0, 1):
        works[turn].wait()
        sums.append(buffers[turn][0].item())
    return sums


def CHECK(results: list[list[float]]) -> None:
    assert [[1.0, 3.0, 5.0, 7.0, 9.0, 11.0]] * 2 == results
