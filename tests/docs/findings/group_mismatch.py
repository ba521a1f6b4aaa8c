"""One call of the program is made on different groups.

Ranks stand at the same line in the same call, and each has been handed another group. Each waits for
the other.

Level: error

Fix: Pass the same group on every rank that the call is for. Look at where the group is chosen: a default
argument (`group=None` is the world), `with_context_parallel`, a condition on the rank.
"""

import torch
import torch.distributed as dist

from harness import Rank

WORLD = {"dp": 2}


def faulty(rank: Rank) -> float:
    loss = torch.tensor([1.0])
    group = rank.group("dp") if rank == 0 else None  # None is the world
    dist.all_reduce(loss, group=group)
    return loss.item()


def fixed(rank: Rank) -> float:
    loss = torch.tensor([1.0])
    dist.all_reduce(loss, group=rank.group("dp"))
    return loss.item()
