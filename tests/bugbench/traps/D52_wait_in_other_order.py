"""Works are waited for in another order than they were issued in, a different one on each rank."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    grads = [torch.full((3,), float(number + rank)) for number in range(4)]
    works = [dist.all_reduce(grad, async_op=True) for grad in grads]
    for number in reversed(range(4)) if rank == 0 else (2, 0, 3, 1):
        works[number].wait()
    return [grad[0].item() for grad in grads]


def CHECK(results: list[list[float]]) -> None:
    assert [[1.0, 3.0, 5.0, 7.0]] * 2 == results
