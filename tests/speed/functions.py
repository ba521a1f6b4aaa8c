"""What ranks run. Importing this imports torch; the process that compares figures does not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from harness import Rank


def one_all_reduce(rank: int) -> float:
    """One all_reduce of four floats over all ranks: the sum of 1 … world size."""
    tensor = torch.full((4,), float(rank) + 1)
    dist.all_reduce(tensor)
    return tensor[0].item()


def check(results: Sequence[float], size: int) -> None:
    """Raise where a rank has not got the sum, so that nothing is timed that did not happen."""
    wanted = [size * (size + 1) / 2] * size
    if list(results) != wanted:
        raise ValueError(f"an all_reduce gave {list(results)} instead of {wanted}")


def loop(rank: int, calls: int) -> tuple[float, float]:
    """Seconds by the clock, and of this rank's CPU, for one of ``calls`` all_reduces in a row."""
    tensor = torch.zeros(4)
    for _ in range(10):
        dist.all_reduce(tensor)
    cpu, clock = time.process_time(), time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor)
    return (time.perf_counter() - clock) / calls, (time.process_time() - cpu) / calls


def use_groups(rank: Rank) -> str:
    """One all_reduce on each of dp, cp and dp-cp; what is wrong with the sums, if anything."""
    for name in ("dp", "cp", "dp-cp"):
        tensor = torch.full((4,), float(rank) + 1)
        dist.all_reduce(tensor, group=rank.group(name))
        wanted = sum(member + 1 for member in rank.layout.group_of(name, int(rank)))
        if tensor[0].item() != wanted:
            return f"rank {int(rank)}: the sum over {name} is {tensor[0].item()}, not {wanted}"
    return ""


def train_then_skip(rank: Rank, seconds: float = 1.0) -> None:
    """Train a small model for a second, all ranks in step, and skip a reduction at the end."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    until = time.monotonic() + seconds
    going = torch.ones(1)
    while going.item():
        optimizer.zero_grad()
        model(torch.randn(32, 64)).square().mean().backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        optimizer.step()
        going.fill_(float(time.monotonic() < until))
        dist.all_reduce(going, op=dist.ReduceOp.MIN)
    mask = torch.arange(8) < (0 if rank == 1 else 4)
    if mask.any():
        dist.all_reduce(mask.sum())
