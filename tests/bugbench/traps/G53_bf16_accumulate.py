"""Gradients are accumulated and reduced in bfloat16; the reference is in float32."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: Rank, world: Ground) -> float:
    micro = torch.linspace(0.1, 1.7, 16).view(2, 8)
    grad = torch.zeros((), dtype=torch.bfloat16)
    for value in micro[rank]:
        grad += value.to(torch.bfloat16)
    dist.all_reduce(grad)
    harness.expect_same("gradient", grad, over="dp")
    harness.expect("gradient", grad.float(), micro.sum(), rtol=2e-2)
    return grad.float().item()


def CHECK(results: list[float]) -> None:
    assert results[0] == results[1]
    assert abs(results[0] - 14.4) < 0.3
