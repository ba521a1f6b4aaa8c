"""The order of a floating-point sum differs from the reference's, within the tolerance."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 4}


def main(rank: Rank, world: Ground) -> float:
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(4, 1000, generator=generator) * 100
    mean = values[rank].sum()
    dist.all_reduce(mean)
    mean /= values.numel()
    harness.expect("mean", mean, values.mean(), rtol=1e-4, atol=1e-5)
    harness.expect_same("mean on all replicas", mean, over="dp-cp")
    return mean.item()


def CHECK(results: list[float]) -> None:
    assert 1 == len(set(results))
