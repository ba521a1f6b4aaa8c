"""The weights of rank 0 are broadcast into buffers that nobody has filled elsewhere."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: int, world: Ground) -> float:
    shapes = {"embed": (5, 2), "bias": (5,), "scale": ()}
    state = {}
    for name, shape in shapes.items():
        state[name] = torch.ones(shape) * len(name) if rank == 0 else torch.empty(shape)
        dist.broadcast(state[name], src=0)
    return sum(each.sum().item() for each in state.values())


def CHECK(results: list[float]) -> None:
    assert [75.0] * 3 == results
