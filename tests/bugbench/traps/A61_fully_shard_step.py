"""A training step of a model sharded with fully_shard (FSDP2) on CPU."""

from typing import cast

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.bugbench.program import Ground

WORLD = {"dp": 2, "timeout": 30.0}


def reference(world_size: int) -> list[float]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        losses = [
            model(torch.full((2, 4), float(r + 1))).square().mean() for r in range(world_size)
        ]
        torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().sum().item() for p in model.parameters()]


def main(rank: int, world: Ground) -> tuple[list[float], list[float]]:
    mesh = init_device_mesh("cpu", (world.size,))
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.full((2, 4), float(rank + 1))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    shards = cast("list[DTensor]", list(model.parameters()))
    sums = [p.full_tensor().detach().sum().item() for p in shards]
    return sums, reference(world.size)


def CHECK(results: list[tuple[list[float], list[float]]]) -> None:
    for sums, expected in results:
        assert torch.allclose(torch.tensor(expected), torch.tensor(sums), atol=1e-5)
