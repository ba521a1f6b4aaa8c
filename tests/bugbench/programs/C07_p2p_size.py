"""The receiver allots another sequence length than the sender has: too short, or too long."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="numel")

HIDDEN = 2


def main(rank: int, world: Ground) -> float:
    length = 4
    if rank == 0:
        dist.send(torch.ones(length, HIDDEN), dst=1)  # BUG
        return 0.0
    if not world.fixed:
        length = 6 if world.seed % 2 else 3
    hidden = torch.zeros(length, HIDDEN)
    dist.recv(hidden, src=0)  # BUG
    return hidden.sum().item()


def CHECK(results: list[float]) -> None:
    assert [0.0, 8.0] == results
