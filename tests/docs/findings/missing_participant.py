"""A rank never made a call that other ranks of the group wait in.

The members of a group meet call by call. Here some ranks are in a call which another rank has left
out for good: it has returned, or it waits in a later call that the others cannot reach. The first
call that was left out is named, not the one in which somebody finally hangs.

Level: error

Fix: Make the call on every member of the group, also on one that has nothing to contribute: let it
send zeros. If the call is meant for some ranks only, pass a group that has just those members. If
ranks make different numbers of passes through a loop, agree on the number first.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}
TOKENS = [150, 0]


def faulty(rank: int) -> float:
    losses = torch.ones(TOKENS[rank])
    total = losses.sum()
    if losses.numel() > 0:  # a rank without tokens stays away
        dist.all_reduce(total)
    return total.item()


def fixed(rank: int) -> float:
    losses = torch.ones(TOKENS[rank])
    total = losses.sum()  # 0 where there are no tokens
    dist.all_reduce(total)
    return total.item()
