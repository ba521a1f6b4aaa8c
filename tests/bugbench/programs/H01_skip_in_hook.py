"""A gradient is reduced in an autograd hook; on rank 0 one layer is frozen, and its hook never runs."""

import torch
import torch.distributed as dist
from torch import nn

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(0,))


def average(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.clone()
    dist.all_reduce(gradient)  # BUG
    return gradient / dist.get_world_size()


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 1, bias=False))
    if rank == 0 and not world.fixed:
        model[0].requires_grad_(False)
    for parameter in model.parameters():
        if parameter.requires_grad:  # GUARD
            parameter.register_hook(average)  # type: ignore[no-untyped-call]
    model(torch.full((4, 3), float(rank + 1))).sum().backward()
    return [p.grad.sum().item() for p in model.parameters() if p.grad is not None]


def CHECK(results: list[list[float]]) -> None:
    assert len(results[0]) == 2
    assert results[0] == results[1]
