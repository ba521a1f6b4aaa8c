"""The last stage takes in one forward more before its first backward than the first stage gives."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))

MICRO_BATCHES = 3


def first_stage() -> float:
    total = 0.0
    for number in range(MICRO_BATCHES):
        dist.send(torch.full((2,), float(number + 1)), dst=1)
        grad = torch.empty(2)
        dist.recv(grad, src=1)  # BUG
        total += grad[0].item()
    return total


def last_stage(warmup: int) -> float:
    held: list[torch.Tensor] = []
    total = 0.0
    for _ in range(MICRO_BATCHES):
        hidden = torch.empty(2)
        dist.recv(hidden, src=0)  # BUG
        total += hidden[0].item()
        held.append(hidden)
        if len(held) > warmup:
            dist.send(held.pop(0) * 10, dst=0)
    for hidden in held:
        dist.send(hidden * 10, dst=0)
    return total


def main(rank: Rank, world: Ground) -> float:
    if rank.pp == 0:
        return first_stage()
    return last_stage(warmup=0 if world.fixed else 1)


def CHECK(results: list[float]) -> None:
    assert [60.0, 6.0] == results
