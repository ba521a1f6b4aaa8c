"""pytest.skip is called on rank 1 alone; the other goes on to a collective."""

import pytest
import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="skip")


def require_memory(free: int, needed: int) -> None:
    if free < needed:  # GUARD
        pytest.skip(f"needs {needed} MiB, {free} are free")  # BUG


def main(rank: int, world: Ground) -> float:
    free = 900 if rank == 0 or world.fixed else 300
    require_memory(free, needed=512)
    value = torch.ones(2)
    dist.all_reduce(value)  # BUG
    return value[0].item()


def CHECK(results: list[float]) -> None:
    assert [2.0, 2.0] == results
