"""A ring in which everyone sends to the right and also expects its block from there."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"cp": 3}
EXPECT = Expect("unmatched_p2p|deadlock", ranks=(0, 1, 2))


def main(rank: int, world: Ground) -> float:
    size = dist.get_world_size()
    right = (rank + 1) % size
    source = (rank - 1) % size if world.fixed else right
    block, total = torch.full((4,), float(rank + 1)), 0.0
    for _ in range(size):
        total += block[0].item()
        incoming = torch.empty_like(block)
        work = dist.isend(block, dst=right)
        dist.recv(incoming, src=source)  # BUG
        assert work is not None
        work.wait()
        block = incoming
    return total


def CHECK(results: list[float]) -> None:
    assert [6.0] * 3 == results
