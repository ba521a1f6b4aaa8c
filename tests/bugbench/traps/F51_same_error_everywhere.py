"""Every rank raises the same error where the test expects it, and goes on."""

import math

import pytest
import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def clip(gradient: torch.Tensor) -> torch.Tensor:
    norm = gradient.square().sum()
    dist.all_reduce(norm)
    if not math.isfinite(norm.item()):
        raise FloatingPointError("the gradient's norm is not finite")
    return gradient / norm.sqrt()


def main(rank: int, world: Ground) -> float:
    bad = torch.tensor([1.0, float("inf") if rank == 1 else 1.0])
    with pytest.raises(FloatingPointError, match="not finite"):
        clip(bad)
    with pytest.raises(RuntimeError, match="invalid root rank"):
        dist.broadcast(bad, src=7)
    return clip(torch.tensor([3.0, 4.0]))[0].item()


def CHECK(results: list[float]) -> None:
    assert torch.allclose(torch.tensor([3 / 50**0.5] * 2), torch.tensor(results))
