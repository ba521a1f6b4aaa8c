"""Logits are sent, token ids are expected: the same number of bytes, read as something else."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="dtype")


def main(rank: int, world: Ground) -> list[float]:
    if rank == 0:
        dist.send(torch.tensor([1.0, 2.0, 3.0]), dst=1)  # BUG
        return []
    received = torch.zeros(3, dtype=torch.float32 if world.fixed else torch.int32)
    dist.recv(received, src=0)  # BUG
    values: list[float] = received.tolist()
    return values


def CHECK(results: list[list[float]]) -> None:
    assert [[], [1.0, 2.0, 3.0]] == results
