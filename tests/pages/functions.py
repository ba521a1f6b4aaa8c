"""Functions with a fault, as they might be in a training repository: what the pictures show."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from harness import Rank


def masked_mean(values: torch.Tensor, mask: torch.Tensor, group: Any) -> torch.Tensor:
    """The mean over all kept tokens; a rank that has none leaves the sum out."""
    total = torch.stack([(values * mask).sum(), mask.sum()])
    if mask.numel() > 0:
        dist.all_reduce(total, group=group)
    return total[0] / total[1].clamp(min=1)


def train_step(rank: Rank, tokens: list[list[int]]) -> float:
    """Some steps of a loss with context parallelism; one micro-batch leaves a rank without tokens."""
    group = rank.group("dp-cp")
    loss = torch.zeros(())
    for step, lengths in enumerate(tokens):
        values = torch.full((lengths[rank],), float(step + 1))
        loss = masked_mean(values, torch.ones_like(values), group)
        dist.all_reduce(loss, op=dist.ReduceOp.MAX)
        dist.broadcast(torch.ones(4), 0)
    return loss.item()


def opposite_orders(rank: Rank) -> None:
    """Ranks enter the groups of two dimensions in opposite orders: a cycle of waits."""
    dp, cp = rank.group("dp"), rank.group("cp")
    statistics, gradient = torch.ones(8), torch.ones(1024)
    dist.all_reduce(statistics, group=cp)
    dist.all_reduce(gradient, group=dp)
    if (rank.dp + rank.cp) % 2:
        dist.all_reduce(statistics, group=cp)
        dist.all_reduce(gradient, group=dp)
    else:
        dist.all_reduce(gradient, group=dp)
        dist.all_reduce(statistics, group=cp)


def long_training(rank: Rank, steps: int, skips: tuple[int, int]) -> None:
    """Many steps over the groups of three dimensions; one rank skips one call in one step."""
    groups = [rank.group("tp"), rank.group("dp"), rank.group("cp")]
    for step in range(steps):
        for group in groups:
            if (rank, step) == skips and group is groups[1]:
                continue
            dist.all_reduce(torch.ones(16), group=group)
        if step % 4 == 3:
            dist.barrier()


def fine(rank: Rank) -> float:
    """No fault at all."""
    value = torch.ones(3) * rank
    dist.all_reduce(value)
    return value[0].item()
