"""The result depends on which rank or which thread comes first.

A receive from any source can take the message of more than one sender, or two threads of a rank make
calls on one group and nothing settles their order.

Level: warning for receives, error for threads

Fix: Name the source of the receive, unless every order gives the same result. Give each thread a group of
its own, or make all calls from one thread.

Details:

- `any_source`: a receive without a source, with several possible senders.
- `threads`: two threads on one group.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 3}


def faulty(rank: int) -> float:
    return collect(rank, [None, None])


def fixed(rank: int) -> float:
    return collect(rank, [1, 2])


def collect(rank: int, sources: list[int | None]) -> float:
    update, average = torch.full((1,), float(rank)), 0.0
    if rank != 0:
        dist.send(update, dst=0)
        return 0.0
    for source in sources:
        dist.recv(update, src=source)
        average = 0.5 * average + update.item()  # the later one counts for more
    return average
