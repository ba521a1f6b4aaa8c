"""A reduction is started in one function and waited for in another, two steps later."""

from typing import Any

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


class Metrics:
    def __init__(self) -> None:
        self.pending: list[tuple[torch.Tensor, Any]] = []
        self.done: list[float] = []

    def log(self, value: float) -> None:
        total = torch.tensor(value)
        self.pending.append((total, dist.all_reduce(total, async_op=True)))

    def flush(self) -> None:
        for total, work in self.pending:
            work.wait()
            self.done.append(total.item() / dist.get_world_size())
        self.pending.clear()


def main(rank: int, world: Ground) -> list[float]:
    metrics = Metrics()
    for step in range(4):
        metrics.log(float(step + 2 * rank))
        if step % 2:
            metrics.flush()
    return metrics.done


def CHECK(results: list[list[float]]) -> None:
    assert [[1.0, 2.0, 3.0, 4.0]] * 2 == results
