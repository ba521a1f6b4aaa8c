"""OpenNMT-py #2295: the buffer of an asynchronous reduction is divided before the wait."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> float:
    grads = torch.full((1_000_000,), 8.0)
    work = dist.all_reduce(grads, async_op=True)  # BUG
    assert work is not None
    if world.fixed:
        work.wait()
    grads /= 4  # BUG
    if not world.fixed:
        work.wait()
    return grads[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
