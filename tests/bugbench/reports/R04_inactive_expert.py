"""DeepSpeed #5008: gradients are reduced only for the experts that received tokens here."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,))


def main(rank: Rank, world: Ground) -> list[float]:
    grads = [torch.full((4,), 10.0 * (expert + 1)) for expert in range(2)]
    active = [0, 1] if rank == 0 else [1]
    if rank == 1:
        grads[0].zero_()
    for expert in range(2) if world.fixed else active:  # GUARD
        dist.all_reduce(grads[expert])  # BUG
    return [grad[0].item() for grad in grads]


def CHECK(results: list[list[float]]) -> None:
    assert [[10.0, 40.0]] * 2 == results
