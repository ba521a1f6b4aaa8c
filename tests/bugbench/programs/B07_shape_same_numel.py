"""One rank holds the projection transposed, so that the ranks add 2x3 to 3x2."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="shape", level="warning")


def main(rank: int, world: Ground) -> list[list[float]]:
    weight = torch.arange(6.0).reshape(2, 3)
    if rank == 1 and not world.fixed:
        weight = weight.t().contiguous()
    dist.all_reduce(weight)  # BUG
    summed: list[list[float]] = weight.tolist()
    return summed


def CHECK(results: list[list[list[float]]]) -> None:
    assert [[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]] * 2 == results
