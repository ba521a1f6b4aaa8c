"""pytorch #78514: the sender posts an isend, drops the request and leaves."""

import time

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("work_not_waited", ranks=(0,))


def main(rank: Rank, world: Ground) -> float:
    activation = torch.full((4,), float(rank + 1))
    if rank == 0:
        request = dist.isend(activation, dst=1)  # BUG
        assert request is not None
        if world.fixed:
            request.wait()
    else:
        time.sleep(0.3)
        dist.recv(activation, src=0)
    return activation[0].item()


def CHECK(results: list[float]) -> None:
    assert [1.0, 1.0] == results
