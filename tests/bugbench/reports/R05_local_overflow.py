"""ColossalAI #1175: a stage that overflowed skips the clipping norm and goes on to its sends."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
# Rank 0 skipped the norm; that its send and the norm wait for each other is the cycle to see.
EXPECT = (
    Expect("missing_participant", ranks=(0,)),
    Expect("deadlock", ranks=(0, 1)),
)


def clip(grad: torch.Tensor) -> None:
    norm = (grad**2).sum()
    dist.all_reduce(norm)  # BUG
    grad /= norm.sqrt()


def next_micro_batch(rank: Rank, activation: torch.Tensor) -> torch.Tensor:
    if rank.pp == 0:
        dist.send(activation, dst=1)  # BUG
    else:
        dist.recv(activation, src=0)
    return activation


def main(rank: Rank, world: Ground) -> float:
    grad = torch.tensor([float("inf") if rank == 0 else 3.0, 4.0])
    overflow = (~torch.isfinite(grad)).any().int()
    if world.fixed:
        dist.all_reduce(overflow, op=dist.ReduceOp.MAX)
    if not overflow:  # GUARD
        clip(grad)
    return next_micro_batch(rank, torch.full((4,), float(rank + 1)))[0].item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 1.0] == results
