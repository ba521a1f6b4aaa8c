"""The last stage waits for a gradient scale that the first one sends only in another mode."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("unmatched_p2p|missing_participant", ranks=(1,))


def main(rank: int, world: Ground) -> float:
    dynamic = world.fixed
    scale = torch.ones(1)
    if rank == 1:
        scale *= 1024
        if dynamic:
            dist.send(scale, dst=0)  # BUG
    else:
        dist.recv(scale, src=1)  # BUG
    return scale.item()


def CHECK(results: list[float]) -> None:
    assert [1024.0, 1024.0] == results
