"""A parameter that a rank's batch did not reach takes part with a gradient of zeros."""

import torch
import torch.distributed as dist
from torch import nn

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    layers = nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in ("a", "b", "c")})
    used = ("a", "b") if rank == 0 else ("a", "c")
    torch.stack([layers[name](torch.ones(1, 2)) for name in used]).sum().backward()  # type: ignore[no-untyped-call]
    sums = []
    for parameter in layers.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        sums.append(parameter.grad.sum().item())
    return sums


def CHECK(results: list[list[float]]) -> None:
    assert [[4.0, 2.0, 2.0]] * 2 == results
