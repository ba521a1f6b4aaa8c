"""Every step makes a group of its own and keeps it."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("group_leak", ranks=(0, 1), level="warning")
STEPS = 16


def mean_loss(loss: torch.Tensor, group: dist.ProcessGroup | None) -> float:
    if group is None:
        group = dist.new_group([0, 1])  # BUG
    dist.all_reduce(loss, group=group)
    return loss.item() / dist.get_world_size(group)


def main(rank: Rank, world: Ground) -> float:
    logging = dist.new_group([0, 1]) if world.fixed else None
    losses = [mean_loss(torch.tensor([float(rank + step)]), logging) for step in range(STEPS)]
    return losses[-1]


def CHECK(results: list[float]) -> None:
    assert [STEPS - 0.5] * 2 == results
