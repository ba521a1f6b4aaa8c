"""The list that all_gather fills holds one tensor as often as there are ranks."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    score = torch.tensor([1.0 + rank])
    size = dist.get_world_size()
    scores = [torch.zeros(1) for _ in range(size)] if world.fixed else [torch.zeros(1)] * size
    dist.all_gather(scores, score)  # BUG
    return [each.item() for each in scores]


def CHECK(results: list[list[float]]) -> None:
    assert [[1.0, 2.0]] * 2 == results
