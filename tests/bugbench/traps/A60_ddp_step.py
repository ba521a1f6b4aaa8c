"""Training steps under DistributedDataParallel with several buckets, one of them under no_sync."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.bugbench.program import Ground

WORLD = {"dp": 2, "timeout": 30.0}


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(2):
        optimizer.zero_grad()
        with ddp.no_sync():
            ddp(torch.randn(8, 4, generator=generator)).square().mean().backward()
        ddp(torch.randn(8, 4, generator=generator)).square().mean().backward()
        optimizer.step()
    return [p.detach().double().sum().item() for p in model.parameters()]


def CHECK(results: list[list[float]]) -> None:
    assert results[0] == results[1]
