"""Three ranks on a ring share each edge with a neighbour; each enters its own edge first."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("deadlock", ranks=(0, 1, 2))


def main(rank: Rank, world: Ground) -> float:
    size = world.size
    groups = [dist.new_group(sorted((edge, (edge + 1) % size))) for edge in range(size)]
    edges = [int(rank), (rank - 1) % size]
    if world.fixed:
        edges.sort()
    cell = torch.tensor([float(rank + 1)])
    total = 0.0
    for edge in edges:  # GUARD
        shared = cell.clone()
        dist.all_reduce(shared, group=groups[edge])  # BUG
        total += shared.item()
    return total


def CHECK(results: list[float]) -> None:
    assert [7.0, 8.0, 9.0] == results
