"""One tensor was reduced twice in place, with no write in between.

Two names stand for the same memory, so the second reduction adds up what was added up already.

Level: error, or a warning where two reductions of one tensor may be meant

Fix: `clone()` where the second name is made, or reduce the tensor once.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> list[float]:
    loss = torch.tensor(3.0)
    metrics = {"loss": loss, "policy_loss": loss, "tokens": torch.tensor(4.0)}
    for value in metrics.values():
        dist.all_reduce(value)
    return [value.item() for value in metrics.values()]


def fixed(rank: int) -> list[float]:
    loss = torch.tensor(3.0)
    metrics = {"loss": loss, "policy_loss": loss.clone(), "tokens": torch.tensor(4.0)}
    for value in metrics.values():
        dist.all_reduce(value)
    return [value.item() for value in metrics.values()]
