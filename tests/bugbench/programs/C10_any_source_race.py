"""Rank 0 folds the workers' updates in as they come, and the result depends on who is first."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("message_race", ranks=(0,), level="warning")


def main(rank: int, world: Ground) -> float:
    update = torch.full((2,), float(rank))
    if rank != 0:
        world.pause(rank)
        dist.send(update, dst=0)
        return 0.0
    average = torch.zeros(2)
    for worker in range(1, dist.get_world_size()):
        dist.recv(update, src=worker if world.fixed else None)  # BUG
        average = 0.5 * average + update
    return average[0].item()


def CHECK(results: list[float]) -> None:
    assert [2.5, 0.0, 0.0] == results
