"""Rank 0 sends its step count after the last epoch; rank 1 has stopped listening."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("unmatched_p2p|missing_participant", ranks=(1,))

EPOCHS = 3


def main(rank: int, world: Ground) -> int:
    step = torch.zeros(1, dtype=torch.int64)
    if rank == 0:
        for _ in range(EPOCHS):
            step += 10
            dist.send(step, dst=1)  # BUG
        return int(step)
    for _ in range(EPOCHS if world.fixed else EPOCHS - 1):
        dist.recv(step, src=0)  # BUG
    return int(step)


def CHECK(results: list[int]) -> None:
    assert [30, 30] == results
