"""Two layers reduce over two groups of the same ranks; one rank runs the layers the other way round."""

import torch
import torch.distributed as dist
from torch import nn

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("deadlock", ranks=(0, 1))


class SyncedScale(nn.Module):
    """Divides by the largest value on all ranks of its group."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peak = x.detach().abs().max()
        dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=self.group)  # BUG
        return x / peak


class Towers(nn.Module):
    """A text and an image tower, each with a group of its own."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order
        self.towers = nn.ModuleDict(
            {name: SyncedScale(dist.new_group([0, 1])) for name in ("text", "image")}
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: self.towers[name](inputs[name]) for name in self.order}  # GUARD


def main(rank: int, world: Ground) -> list[float]:
    order = ["text", "image"]
    if rank == 1 and not world.fixed:
        order.reverse()
    outputs = Towers(order)({"text": torch.tensor([rank + 1.0]), "image": torch.tensor([4.0])})
    return [outputs["text"].item(), outputs["image"].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[0.5, 1.0], [1.0, 1.0]] == results
