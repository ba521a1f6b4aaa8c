"""All reductions go through one helper; one rank evaluates before the training, the other after."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("misaligned_calls", ranks=(0, 1))


def average(value: float) -> float:
    tensor = torch.tensor(value)
    dist.all_reduce(tensor)
    return tensor.item() / dist.get_world_size()


def evaluate(rank: int) -> float:
    return average(100.0 * (rank + 1))  # BUG


def train(rank: int, steps: int) -> float:
    total = 0.0
    for step in range(steps):
        total += average(float(rank + step))  # BUG
    return total


def main(rank: int, world: Ground) -> tuple[float, float]:
    resumed = rank == 0 and not world.fixed
    accuracy = evaluate(rank) if resumed else -1.0  # GUARD
    loss = train(rank, steps=3)
    if not resumed:
        accuracy = evaluate(rank)
    return loss, accuracy


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(4.5, 150.0)] * 2 == results
