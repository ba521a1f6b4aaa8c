"""A transposed activation is made contiguous before it is scattered."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[list[float]]:
    hidden = (torch.arange(8.0) * (1 + rank)).reshape(2, 4)
    by_position = hidden.t()
    mine = torch.empty(2, 2)
    dist.reduce_scatter_tensor(mine, by_position.contiguous())
    scattered: list[list[float]] = mine.tolist()
    return scattered


def CHECK(results: list[list[list[float]]]) -> None:
    assert [[[0.0, 12.0], [3.0, 15.0]], [[6.0, 18.0], [9.0, 21.0]]] == results
