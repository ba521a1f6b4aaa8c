"""After the collective an assertion holds on one rank and fails on the other."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(1,), text="AssertionError")


def check_replica(weight: torch.Tensor) -> float:
    own = weight.sum()
    first = own.clone()
    dist.broadcast(first, src=0)
    assert torch.equal(own, first), f"drifted: {own:.2f}, not {first:.2f}"  # GUARD # BUG
    return first.item()


def main(rank: int, world: Ground) -> float:
    weight = torch.ones(3)
    for _ in range(2):
        gradient = torch.full((3,), rank + 1.0)
        if rank == 0 or world.fixed:
            gradient = torch.ones(3)
        weight -= 0.5 * gradient
    return check_replica(weight)


def CHECK(results: list[float]) -> None:
    assert [0.0, 0.0] == results
