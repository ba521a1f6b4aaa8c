"""pytorch-lightning #21409: two metrics with different names are averaged into each other."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("misaligned_calls", ranks=(0, 1), text="val_even")


class Logger:
    def __init__(self) -> None:
        self.table: dict[str, float] = {}

    def log(self, name: str, value: float) -> None:
        mean = torch.tensor(value)
        with harness.label(name):
            dist.all_reduce(mean)  # BUG
        self.table[name] = mean.item() / dist.get_world_size()


def main(rank: Rank, world: Ground) -> dict[str, float]:
    logger = Logger()
    logger.log("val_loss", 1.0)
    seen = {"val_even": 0.5} if rank == 0 else {"val_odd": 0.75}
    names = ("val_even", "val_odd") if world.fixed else tuple(seen)
    for name in names:  # GUARD
        logger.log(name, seen.get(name, 0.0))
    return logger.table


def CHECK(results: list[dict[str, float]]) -> None:
    assert [{"val_loss": 1.0, "val_even": 0.25, "val_odd": 0.375}] * 2 == results
