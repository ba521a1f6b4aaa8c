"""A transposed view is reduced in place: gloo takes its memory for that of a dense tensor."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[list[float]]:
    hidden = torch.arange(12.0).reshape(3, 4) * (1 + rank)
    heads = hidden[:, ::2].t()
    if world.fixed:
        heads = heads.contiguous()
    dist.all_reduce(heads)  # BUG
    summed: list[list[float]] = heads.tolist()
    return summed


def CHECK(results: list[list[list[float]]]) -> None:
    assert [[[0.0, 12.0, 24.0], [6.0, 18.0, 30.0]]] * 2 == results
