"""A metrics thread and the training thread use one group, in whatever order they get to it."""

import threading

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("message_race", ranks=(0, 1))
STEPS = 5


def main(rank: Rank, world: Ground) -> tuple[float, float]:
    logging = dist.new_group([0, 1]) if world.fixed else None
    metric, grad = torch.zeros(4), torch.zeros(4)

    def report() -> None:
        for _ in range(STEPS):
            value = torch.full((4,), 1.0)
            dist.all_reduce(value, group=logging)  # BUG
            metric.add_(value)
            world.pause(rank, 0.01)

    reporter = threading.Thread(target=report)
    reporter.start()
    for _ in range(STEPS):
        value = torch.full((4,), 100.0)
        dist.all_reduce(value)  # BUG
        grad.add_(value)
        world.pause(rank, 0.01)
    reporter.join()
    return metric[0].item(), grad[0].item()


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(10.0, 1000.0)] * 2 == results
