"""Statistics are reduced and gathered over the world, to a leader that each pair has of its own."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("argument_mismatch", ranks=(0, 1, 2, 3), detail="root")


def collect(loss: torch.Tensor, leader: int) -> tuple[float, list[float]]:
    total = loss.clone()
    dist.reduce(total, dst=leader)  # BUG
    mine = dist.get_rank() == leader
    parts = [torch.zeros_like(loss) for _ in range(dist.get_world_size())] if mine else None
    dist.gather(loss, parts, dst=leader)  # BUG
    return (total.item(), [part.item() for part in parts]) if parts else (0.0, [])


def main(rank: int, world: Ground) -> tuple[float, list[float]]:
    leader = 0 if world.fixed else rank - rank % 2
    return collect(torch.tensor([1.0 + rank]), leader)


def CHECK(results: list[tuple[float, list[float]]]) -> None:
    assert (10.0, [1.0, 2.0, 3.0, 4.0]) == results[0]
    assert [(0.0, [])] * 3 == results[1:]
