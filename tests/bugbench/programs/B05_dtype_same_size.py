"""The weights of the tokens are floats on one rank and, by default, an int32 mask on the other."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="dtype")


def total_weight(mask: torch.Tensor, weights: torch.Tensor | None, world: Ground) -> float:
    if weights is None:
        weights = mask.float() if world.fixed else mask
    total = weights.sum(dim=0, keepdim=True, dtype=weights.dtype)
    dist.all_reduce(total)  # BUG
    return total.item()


def main(rank: int, world: Ground) -> float:
    mask = torch.tensor([1, 1, 0, 1], dtype=torch.int32)
    return total_weight(mask, mask * 0.5 if rank == 0 else None, world)


def CHECK(results: list[float]) -> None:
    assert [4.5, 4.5] == results
