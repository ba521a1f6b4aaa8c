"""Rank 1 skips the third of eight steps, is one call ahead from there on and ends early."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="call 3")


def main(rank: int, world: Ground) -> list[float]:
    losses = []
    for step in range(1, 9):
        tokens = 0 if (rank == 1 and step == 3) else 16
        if tokens == 0 and not world.fixed:  # GUARD
            continue
        loss = torch.tensor(float(tokens * step))
        dist.all_reduce(loss)  # BUG
        losses.append(loss.item())
    return losses


def CHECK(results: list[list[float]]) -> None:
    assert [[32.0, 64.0, 48.0, 128.0, 160.0, 192.0, 224.0, 256.0]] * 2 == results
