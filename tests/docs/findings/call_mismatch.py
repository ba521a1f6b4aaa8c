"""The ranks of a group meet in different operations.

All members have made their next call, and it is not the same operation. With gloo this hangs, or
moves the bytes of one call into the tensor of the other.

Level: error

Fix: Put the calls in one order on all ranks. Where one rank stands further on in the program than the
other, it has left a call out: the report says so under "what to do".
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> float:
    loss = torch.tensor([float(rank)])
    if rank == 0:
        dist.all_reduce(loss)
        dist.broadcast(loss, src=0)
    else:
        dist.broadcast(loss, src=0)
        dist.all_reduce(loss)
    return loss.item()


def fixed(rank: int) -> float:
    loss = torch.tensor([float(rank)])
    dist.all_reduce(loss)
    dist.broadcast(loss, src=0)
    return loss.item()
