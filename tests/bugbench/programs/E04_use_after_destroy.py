"""A group is destroyed after the warm-up and used once more at the end."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("use_after_destroy", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> float:
    metrics = dist.new_group([0, 1])
    warm = torch.ones(1)
    dist.all_reduce(warm, group=metrics)
    if not world.fixed:
        dist.destroy_process_group(metrics)

    loss = torch.tensor([float(rank + 1)])
    dist.all_reduce(loss, group=metrics)  # BUG
    if world.fixed:
        dist.destroy_process_group(metrics)
    return loss.item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
