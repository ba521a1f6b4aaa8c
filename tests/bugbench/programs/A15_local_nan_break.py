"""One rank breaks out of the training loop because of its own NaN and goes on to the evaluation."""

import math

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="call 3")


def train(rank: int, steps: int, spike: float) -> float:
    weight = torch.tensor(1.0)
    for step in range(steps):
        loss = weight * (spike if rank == 1 and step == 2 else 0.5)
        if math.isnan(loss.item()):  # GUARD
            print(f"rank {rank}: loss is NaN at step {step}, stopping")
            break
        dist.all_reduce(loss)  # BUG
        weight -= 0.1 * loss / dist.get_world_size()
    return weight.item()


def evaluate(rank: int) -> float:
    correct = torch.tensor(10.0 + rank)
    dist.all_reduce(correct)
    return correct.item()


def main(rank: int, world: Ground) -> float:
    train(rank, steps=5, spike=0.5 if world.fixed else float("nan"))
    return evaluate(rank)


def CHECK(results: list[float]) -> None:
    assert [21.0, 21.0] == results
