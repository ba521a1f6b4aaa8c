"""A [sum, count] pair is float64 where the sum has become a numpy scalar, float32 elsewhere."""

from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="dtype")


def mean(total: Any, count: int, dtype: torch.dtype | None) -> float:
    state = torch.tensor([total, count], dtype=dtype)
    dist.all_reduce(state)  # BUG
    return (state[0] / state[1]).item()


def main(rank: int, world: Ground) -> float:
    losses = [0.5, 1.5] if rank == 0 else [2.0, 4.0, 4.0]
    total = sum(losses) if rank == 0 else np.sum(losses)
    return mean(total, len(losses), torch.float32 if world.fixed else None)


def CHECK(results: list[float]) -> None:
    assert results[0] == results[1]
    assert abs(results[0] - 2.4) < 1e-6
