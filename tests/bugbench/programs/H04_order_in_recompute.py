"""A checkpointed block draws from Python's generator, which the recomputation does not rewind."""

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "timeout": 30.0}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


class Block(nn.Module):
    """A linear layer with statistics of all ranks, gathered before or after they are reduced."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.generator = generator

    def gathered_peak(self, x: torch.Tensor) -> torch.Tensor:
        peaks = [torch.empty(1) for _ in range(dist.get_world_size())]
        dist.all_gather(peaks, x.max().view(1))  # BUG
        return torch.cat(peaks).max()

    def reduced_power(self, x: torch.Tensor) -> torch.Tensor:
        power = x.square().mean(0)
        dist.all_reduce(power)  # BUG
        return power

    def forward(self, x: torch.Tensor, draw: float | None = None) -> torch.Tensor:
        x = self.linear(x)
        if draw is None:
            draw = self.generator.random()
        if draw < 0.5:  # GUARD
            power, peak = self.reduced_power(x.detach()), self.gathered_peak(x.detach())
        else:
            peak, power = self.gathered_peak(x.detach()), self.reduced_power(x.detach())
        return x / (power + peak.abs()).sqrt()


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(1)
    generator = random.Random(3)
    block = Block(generator)
    draw = generator.random() if world.fixed else None
    loss = checkpoint(block, torch.ones(3, 4), draw, use_reentrant=False).sum()
    if rank % 2 == 1 and generator.random() < 0.9:  # odd ranks log a sample of their losses
        print(f"loss {loss.item():.3f}")
    loss.backward()
    return [p.grad.norm().item() for p in block.parameters() if p.grad is not None]


def CHECK(results: list[list[float]]) -> None:
    assert len(results[0]) == 2
    assert results[0] == results[1]
