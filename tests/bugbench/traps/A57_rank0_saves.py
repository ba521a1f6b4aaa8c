"""Rank 0 prints and saves by itself; no collective is in there."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def save(weight: torch.Tensor, path: Path) -> int:
    torch.save({"weight": weight}, path)
    return int(torch.load(path)["weight"].numel())


def main(rank: int, world: Ground) -> int:
    weight = torch.full((6,), float(rank))
    saved = 0
    for step in range(3):
        gradient = torch.ones(6)
        dist.all_reduce(gradient)
        weight -= gradient
        if dist.get_rank() == 0:
            print(f"step {step}: |w| = {weight.norm():.3f}")
            with tempfile.TemporaryDirectory() as folder:
                saved += save(weight, Path(folder) / "weight.pt")
    return saved


def CHECK(results: list[int]) -> None:
    assert [18, 0] == results
