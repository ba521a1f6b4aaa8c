"""The sender leaves with its isend never waited for."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("work_not_waited", ranks=(0,))


def main(rank: int, world: Ground) -> float:
    hidden = torch.full((4,), 2.0)
    if rank == 0:
        work = dist.isend(hidden, dst=1)  # BUG
        if world.fixed and work is not None:
            work.wait()
        return 0.0
    world.pause(rank)
    received = torch.empty(4)
    dist.recv(received, src=0)
    return received.sum().item()


def CHECK(results: list[float]) -> None:
    assert [0.0, 8.0] == results
