"""The sender numbers the micro-batches from 1, the receiver from 2."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("unmatched_p2p", ranks=(0, 1), text="tag")


def main(rank: int, world: Ground) -> float:
    hidden = torch.full((2, 4), 3.0 if rank == 0 else 0.0)
    micro_batch = 1
    if rank == 0:
        dist.send(hidden, dst=1, tag=micro_batch)  # BUG
    else:
        tag = micro_batch if world.fixed else micro_batch + 1
        dist.recv(hidden, src=0, tag=tag)  # BUG
    return hidden.sum().item()


def CHECK(results: list[float]) -> None:
    assert [24.0, 24.0] == results
