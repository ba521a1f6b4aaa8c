"""A group was used after its end, or destroyed while a call on it was in flight.

Level: error

Fix: Destroy a group when nothing uses it any more, and wait for its calls first.

Details:

- `used`: a call on a group that had been destroyed.
- `in_flight`: a group was destroyed before an asynchronous call on it was waited for.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> float:
    metrics = dist.new_group([0, 1])
    dist.destroy_process_group(metrics)
    loss = torch.tensor([1.0])
    dist.all_reduce(loss, group=metrics)
    return loss.item()


def fixed(rank: int) -> float:
    metrics = dist.new_group([0, 1])
    loss = torch.tensor([1.0])
    dist.all_reduce(loss, group=metrics)
    dist.destroy_process_group(metrics)
    return loss.item()
