"""Both ranks receive before they send."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


def exchange(mine: torch.Tensor, peer: int, first: bool) -> torch.Tensor:
    theirs = torch.empty_like(mine)
    if first:
        dist.send(mine, dst=peer)
    dist.recv(theirs, src=peer)  # BUG
    if not first:
        dist.send(mine, dst=peer)
    return theirs


def main(rank: int, world: Ground) -> float:
    edge = torch.full((8,), float(rank))
    return exchange(edge, 1 - rank, first=rank == 0 and world.fixed)[0].item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 0.0] == results
