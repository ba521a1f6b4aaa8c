"""A rank made a call on a group that it is not in.

torch does nothing then, with a warning at most. The rank goes on with the value that it had before.

Level: error

Fix: Guard the call by membership, or pass the group that this rank is in. If the rank needs the result,
make it a member or send it the result.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 4}


def faulty(rank: int) -> float:
    actors = dist.new_group([0, 1])
    episodes = torch.tensor([1.0])
    dist.all_reduce(episodes, group=actors)  # does nothing on ranks 2 and 3
    return episodes.item()


def fixed(rank: int) -> float:
    actors = dist.new_group([0, 1])
    episodes = torch.tensor([1.0])
    if rank in (0, 1):
        dist.all_reduce(episodes, group=actors)
    return episodes.item()
