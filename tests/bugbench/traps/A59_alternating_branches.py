"""In each step the ranks take different branches in turn; every branch makes the same all_reduce."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def discriminator_step(scores: torch.Tensor) -> float:
    loss = torch.relu(1 - scores).mean()
    dist.all_reduce(loss)
    return loss.item()


def generator_step(scores: torch.Tensor) -> float:
    loss = -scores.mean()
    dist.all_reduce(loss)
    return loss.item()


def main(rank: int, world: Ground) -> list[float]:
    losses = []
    for step in range(6):
        scores = torch.full((4,), 0.25)
        if (step + rank) % 2 == 0:
            losses.append(discriminator_step(scores))
        else:
            losses.append(generator_step(scores))
    return losses


def CHECK(results: list[list[float]]) -> None:
    assert [[0.5] * 6] * 2 == results
