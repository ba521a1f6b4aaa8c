"""A receive is posted, then both ranks reduce over another group before the send is made."""

import time

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> tuple[float, bool]:
    group = dist.new_group([0, 1])
    got, total = torch.zeros(2), torch.ones(2)
    posted = 0.0
    if rank == 0:
        started = time.monotonic()
        work = dist.irecv(got, src=1)
        posted = time.monotonic() - started
        dist.all_reduce(total, group=group)
        assert work is not None
        work.wait()
    else:
        time.sleep(0.3)
        dist.all_reduce(total, group=group)
        dist.send(torch.full((2,), 5.0), dst=0)
    return got[0].item() + total[0].item(), posted < 0.2


def CHECK(results: list[tuple[float, bool]]) -> None:
    assert [(7.0, True), (2.0, True)] == results
