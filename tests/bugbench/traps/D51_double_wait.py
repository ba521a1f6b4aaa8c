"""A work is waited for twice."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> float:
    grad = torch.full((3,), 1.0 + rank)
    work = dist.all_reduce(grad, async_op=True)
    work.wait()
    grad /= dist.get_world_size()
    work.wait()
    return grad[0].item()


def CHECK(results: list[float]) -> None:
    assert [1.5, 1.5] == results
