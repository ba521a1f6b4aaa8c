"""Gradients are reduced in autograd hooks while backward runs, on every rank in the same order."""

import torch
import torch.distributed as dist
from torch import nn

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def average(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 1, bias=False))
    for parameter in model.parameters():
        parameter.register_hook(average)  # type: ignore[no-untyped-call]
    for scale in (1.0, 2.0):
        (scale * model(torch.full((4, 3), float(rank + 1)))).sum().backward()
    return [p.grad.sum().item() for p in model.parameters() if p.grad is not None]


def CHECK(results: list[list[float]]) -> None:
    assert len(results[0]) == 2
    assert results[0] == results[1]
