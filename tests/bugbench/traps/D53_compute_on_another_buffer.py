"""While one gradient is in flight, another tensor is computed, written and read."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> list[float]:
    grad = torch.full((64,), 1.0 + rank)
    hidden = torch.ones(64)
    work = dist.all_reduce(grad, async_op=True)
    hidden.mul_(3.0).add_(rank)
    hidden.resize_(32)
    mean = hidden.mean().item()
    copy = torch.empty_like(grad)  # its shape may be asked for
    copy.fill_(grad.numel())
    work.wait()
    grad /= 2
    return [mean, copy[0].item(), grad[0].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 64.0, 1.5], [4.0, 64.0, 1.5]] == results
