"""Rank 0 has one more barrier at the end, after writing the summary."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,))


def main(rank: int, world: Ground) -> str:
    score = torch.tensor(0.25 * (rank + 1))
    dist.all_reduce(score)
    dist.barrier()
    text = f"score {score.item():.2f}"
    if rank == 0:  # GUARD
        print(text)
        if not world.fixed:
            dist.barrier()  # BUG
    return text


def CHECK(results: list[str]) -> None:
    assert ["score 0.75"] * 2 == results
