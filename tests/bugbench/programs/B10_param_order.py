"""Gradients are reduced in the order in which they came in, which is another one on rank 1."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("misaligned_calls", ranks=(0, 1))


def reduce_gradients(grads: dict[str, torch.Tensor], world: Ground) -> None:
    for name in sorted(grads) if world.fixed else grads:  # GUARD
        grad = grads[name]
        dist.all_reduce(grad)  # BUG
        grad /= dist.get_world_size()


def main(rank: int, world: Ground) -> dict[str, float]:
    arrived = ["query", "key", "value"] if rank == 0 else ["key", "query", "value"]
    size = {"query": 1.0, "key": 10.0, "value": 100.0}
    grads = {name: torch.full((4, 4), size[name] * (1 + rank)) for name in arrived}
    reduce_gradients(grads, world)
    return {name: grads[name][0, 0].item() for name in size}


def CHECK(results: list[dict[str, float]]) -> None:
    assert [{"query": 1.5, "key": 15.0, "value": 150.0}] * 2 == results
