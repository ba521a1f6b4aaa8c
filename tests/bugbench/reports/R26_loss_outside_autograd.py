"""lightly #1977: a loss is reduced in place, out of autograd's sight: its gradient is too small."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1), text="gradient")


def main(rank: Rank, world: Ground) -> tuple[float, float]:
    from torch.distributed.nn.functional import all_reduce

    weight = torch.tensor(1.0, requires_grad=True)
    loss = weight * (rank + 1) / rank.world_size
    if world.fixed:
        loss = all_reduce(loss)  # type: ignore[no-untyped-call]
    else:
        dist.all_reduce(loss.data)  # BUG
    loss.backward()  # type: ignore[no-untyped-call]
    gradient = weight.grad
    assert gradient is not None
    dist.all_reduce(gradient)
    gradient /= rank.world_size

    # The same on one process, with the data of both ranks.
    alone = torch.tensor(1.0, requires_grad=True)
    reference = (alone * torch.tensor([1.0, 2.0])).mean()
    reference.backward()  # type: ignore[no-untyped-call]
    harness.expect("loss", loss, reference)
    harness.expect("gradient", gradient, alone.grad)  # BUG
    return loss.item(), gradient.item()


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(1.5, 1.5)] * 2 == results
