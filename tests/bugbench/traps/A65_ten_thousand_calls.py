"""Ten thousand calls, a hundred in flight at a time; nothing is said and nothing piles up."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2, "timeout": 60.0}


def main(rank: int, world: Ground) -> float:
    values = [torch.ones(1) for _ in range(100)]
    for _ in range(100):
        works = [dist.all_reduce(value, async_op=True) for value in values]
        for work in works:
            assert work is not None
            work.wait()
        for value in values:
            value /= world.size
    return float(sum(value.item() for value in values))


def CHECK(results: list[float]) -> None:
    assert [100.0, 100.0] == results
