"""torchmetrics #3503: the elements of a list state are gathered one by one; lengths differ."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
# Either rank 1 gathered once too often or rank 0 once too little: the records show no more.
EXPECT = (
    Expect("call_mismatch", ranks=(0, 1)),
    Expect("missing_participant", ranks=(0,)),
)


def sync(states: list[torch.Tensor]) -> list[float]:
    synced = []
    for state in states:  # GUARD
        parts = [torch.empty_like(state) for _ in range(2)]
        dist.all_gather(parts, state)  # BUG
        synced += [part.item() for part in parts]
    dist.barrier()  # BUG
    return synced


def main(rank: Rank, world: Ground) -> list[float]:
    updates = 2 if rank == 0 or world.fixed else 3
    return sync([torch.tensor([float(10 * rank + update)]) for update in range(updates)])


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 10.0, 1.0, 11.0]] * 2 == results
