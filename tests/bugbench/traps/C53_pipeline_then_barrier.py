"""Activations go forward and gradients back between stages; then the world meets in a barrier."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"pp": 3}


def main(rank: Rank, world: Ground) -> float:
    last = dist.get_world_size() - 1
    total = 0.0
    for number in range(2):
        hidden = torch.full((3,), float(number + 1))
        if rank.pp > 0:
            dist.recv(hidden, src=rank - 1)
        output = hidden * 2
        if rank.pp < last:
            dist.send(output, dst=rank + 1)
        grad = torch.ones(3)
        if rank.pp < last:
            dist.recv(grad, src=rank + 1)
        grad = grad * 2
        if rank.pp > 0:
            dist.send(grad, dst=rank - 1)
        total += (output[0] * grad[0]).item()
    dist.barrier()
    return total


def CHECK(results: list[float]) -> None:
    assert [48.0] * 3 == results
