"""A rank has returned, and nobody waited for a call that it made asynchronously.

The call may still be running, and its buffer may hold anything. This covers `async_op=True`, `isend` and
`irecv`, functional collectives, and coalescing blocks.

Level: error

Fix: Keep what the call returns, and `wait()` for it before the buffer is used. Leave `async_op=True` out
where nothing is done in between.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> None:
    gradient = torch.ones(1000)
    dist.all_reduce(gradient, async_op=True)


def fixed(rank: int) -> None:
    gradient = torch.ones(1000)
    work = dist.all_reduce(gradient, async_op=True)
    assert work is not None
    work.wait()
