"""Rank 1 prints and logs a megabyte, more than any pipe holds, and then leaves a call out."""

import logging
import sys

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,))

log = logging.getLogger("trainer")


def dump(lines: int) -> None:
    for number in range(lines):
        print(f"sample {number:6}: {'token ' * 15}")
    sys.stderr.write("warning: deprecated option\n" * lines)
    for number in range(200):
        log.warning("sample %d has no label%s", number, " at all" * 40)


def main(rank: int, world: Ground) -> float:
    value = torch.ones(2)
    dist.all_reduce(value)
    if rank == 1:
        dump(lines=10_000)
    if rank == 0 or world.fixed:  # GUARD
        dist.all_reduce(value)  # BUG
    return value[0].item()


def CHECK(results: list[float]) -> None:
    assert [4.0, 4.0] == results
