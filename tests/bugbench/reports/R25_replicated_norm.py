"""NeMo-RL #3788: the norm counts a replicated gradient once per tensor-parallel rank."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"tp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))


def grad_norm(sharded: torch.Tensor, replicated: torch.Tensor, rank: Rank, once: bool) -> float:
    squares = (sharded**2).sum()
    if rank.tp == 0 or not once:
        squares = squares + (replicated**2).sum()
    dist.all_reduce(squares, group=rank.group("tp"))  # BUG
    return squares.sqrt().item()


def main(rank: Rank, world: Ground) -> float:
    norm = grad_norm(torch.tensor([3.0]), torch.tensor([4.0]), rank, world.fixed)
    unsharded = torch.tensor([3.0, 3.0, 4.0]).norm().item()
    harness.expect("gradient norm", norm, unsharded, rtol=1e-6)  # BUG
    return norm


def CHECK(results: list[float]) -> None:
    assert all(abs(result - 34**0.5) < 1e-5 for result in results)
