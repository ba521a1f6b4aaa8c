"""The token count is reduced in the background, and nobody ever waits for it."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("work_not_waited", ranks=(0, 1))


def main(rank: int, world: Ground) -> tuple[float, torch.Tensor]:
    tokens = torch.tensor([100 + rank])
    work = dist.all_reduce(tokens, async_op=True)  # BUG
    loss = torch.full((2,), 0.5 + rank)
    dist.all_reduce(loss)
    if world.fixed:
        work.wait()
    return loss[0].item(), tokens


def CHECK(results: list[tuple[float, torch.Tensor]]) -> None:
    assert [(2.0, 201), (2.0, 201)] == [(loss, int(tokens)) for loss, tokens in results]
