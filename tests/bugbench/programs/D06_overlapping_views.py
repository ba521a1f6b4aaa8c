"""The buckets of a flat gradient overlap by one element, and are reduced at the same time."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    flat = torch.arange(10.0) * (1 + rank)
    bounds = [(0, 5), (5, 10)] if world.fixed else [(0, 6), (5, 10)]
    works = []
    for start, end in bounds:
        works.append(dist.all_reduce(flat[start:end], async_op=True))  # BUG
    for work in works:
        work.wait()
    summed: list[float] = flat.tolist()
    return summed


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0 * i for i in range(10)]] * 2 == results
