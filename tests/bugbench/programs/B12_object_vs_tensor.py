"""Rank 0 gathers its statistics as an object, rank 1 as a tensor."""

from typing import Any

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


def gather_stats(loss: float, tokens: int, as_objects: bool) -> list[Any]:
    size = dist.get_world_size()
    if as_objects:  # GUARD
        objects: list[Any] = [None] * size
        dist.all_gather_object(objects, {"loss": loss, "tokens": tokens})  # BUG
        return objects
    tensors = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(tensors, torch.tensor([loss, float(tokens)]))  # BUG
    return [{"loss": t[0].item(), "tokens": int(t[1])} for t in tensors]


def main(rank: int, world: Ground) -> list[Any]:
    return gather_stats(0.5 + rank, 10, as_objects=rank == 0 or world.fixed)


def CHECK(results: list[list[Any]]) -> None:
    expected = [{"loss": 0.5, "tokens": 10}, {"loss": 1.5, "tokens": 10}]
    assert [expected, expected] == results
