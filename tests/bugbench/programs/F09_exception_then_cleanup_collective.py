"""A step fails on one rank; its handler reduces a status, which pairs with the others' gradient."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(1,), text="ZeroDivisionError")


def share_status(code: float) -> float:
    status = torch.tensor(code)
    dist.all_reduce(status)
    return status.item()


def step(scores: list[float], valid: int) -> float:
    loss = torch.tensor(sum(scores) / valid)  # GUARD # BUG
    dist.all_reduce(loss)
    return loss.item()


def main(rank: int, world: Ground) -> float:
    valid = 2 if rank == 0 or world.fixed else 0
    try:
        loss = step([1.0, 3.0], valid)
    except Exception:
        share_status(1.0)
        raise
    failed = share_status(0.0)
    return loss + 100 * failed


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
