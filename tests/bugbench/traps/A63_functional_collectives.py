"""Functional collectives in a function under torch.compile, with compilation switched off."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "timeout": 30.0}


@torch.compile
def normalize(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    total = funcol.all_reduce(x.sum(), "sum", group)
    parts = funcol.all_gather_tensor(x, 0, group)
    shares: torch.Tensor = parts / total
    return shares


def main(rank: Rank, world: Ground) -> list[float]:
    x = torch.tensor([1.0, 2.0]) + rank
    group = rank.group("dp")
    first = normalize(x, group)
    share = funcol.reduce_scatter_tensor(first, "sum", 0, group)
    return [*first.tolist(), *share.tolist()]


def CHECK(results: list[list[float]]) -> None:
    parts = [0.125, 0.25, 0.25, 0.375]
    assert [[*parts, 0.25, 0.5], [*parts, 0.5, 0.75]] == results
