"""One rank makes the call synchronously, the other issues it and waits for the work later."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    gradient = torch.full((4,), float(rank + 1))
    if rank == 0:
        dist.all_reduce(gradient)
    else:
        work = dist.all_reduce(gradient, async_op=True)
        norm = torch.ones(8).norm()  # something to do meanwhile
        assert work is not None
        work.wait()
        assert norm > 0
    return gradient.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0] * 4] * 2 == results
