"""Collectives inside a checkpointed block are made again in backward, on every rank alike."""

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.bugbench.program import Ground

WORLD = {"dp": 2, "timeout": 30.0}


class Block(nn.Module):
    """A linear layer whose output is scaled by statistics of all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        power = x.detach().square().mean(0)
        dist.all_reduce(power)
        peaks = [torch.empty(1) for _ in range(dist.get_world_size())]
        dist.all_gather(peaks, x.detach().max().view(1))
        return x / (power + torch.cat(peaks).max().abs()).sqrt()


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(1)
    blocks = nn.ModuleList(Block() for _ in range(2))
    x = torch.ones(3, 4)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    x.sum().backward()  # type: ignore[no-untyped-call]
    return [p.grad.norm().item() for p in blocks.parameters() if p.grad is not None]


def CHECK(results: list[list[float]]) -> None:
    assert len(results[0]) == 4
    assert results[0] == results[1]
