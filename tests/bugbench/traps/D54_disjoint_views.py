"""The buckets of a flat gradient lie side by side; one is written while the other is in flight."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    flat = torch.arange(8.0)
    first, second = flat[:4], flat[4:]
    works = [dist.all_reduce(first, async_op=True)]
    second *= 10
    works.append(dist.all_reduce(second, async_op=True))
    for work in works:
        work.wait()
    summed: list[float] = flat.tolist()
    return summed


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 2.0, 4.0, 6.0, 80.0, 100.0, 120.0, 140.0]] * 2 == results
