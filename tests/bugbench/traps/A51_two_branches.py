"""Both branches call the same all_reduce, from different lines."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> float:
    value = torch.full((3,), float(rank + 1))
    if rank == 0:
        value *= 2
        dist.all_reduce(value)
    else:
        dist.all_reduce(value)
    return value[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
