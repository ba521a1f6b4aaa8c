"""Two of three ranks exchange a message; then all meet in a barrier and an all_reduce."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: int, world: Ground) -> float:
    value = torch.full((2,), float(rank + 1))
    if rank == 0:
        dist.send(value, dst=2)
    elif rank == 2:
        dist.recv(value, src=0)
    dist.barrier()
    dist.all_reduce(value)
    return value[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0] * 3 == results
