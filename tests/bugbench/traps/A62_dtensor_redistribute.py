"""A DTensor goes from sharded to replicated, to the other dimension, and from partial to a sum."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tests.bugbench.program import Ground

WORLD = {"tp": 2, "timeout": 30.0}


def main(rank: int, world: Ground) -> tuple[list[float], list[float], float]:
    mesh = init_device_mesh("cpu", (world.size,))
    matrix = torch.arange(8.0).view(4, 2)
    rows = distribute_tensor(matrix, mesh, [Shard(0)])
    whole = rows.redistribute(mesh, [Replicate()]).to_local()
    columns = rows.redistribute(mesh, [Shard(1)]).to_local()
    part = DTensor.from_local(torch.full((2,), float(rank + 1)), mesh, [Partial()])
    total = part.redistribute(mesh, [Replicate()]).to_local()
    return whole.flatten().tolist(), columns.flatten().tolist(), total[0].item()


def CHECK(results: list[tuple[list[float], list[float], float]]) -> None:
    whole = [float(x) for x in range(8)]
    assert [(whole, whole[0::2], 3.0), (whole, whole[1::2], 3.0)] == results
