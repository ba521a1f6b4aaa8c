"""trl #7310: each rank gathers the metrics that it happened to record."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="fmt")


def gather(value: float) -> list[float]:
    mine = torch.tensor([value])
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)  # BUG
    return [each.item() for each in everyone]


def main(rank: Rank, world: Ground) -> dict[str, list[float]]:
    recorded = {"fmt": 1.0, "reward": 0.5} if rank == 0 else {"reward": 0.9}
    if world.fixed:
        recorded = {name: recorded.get(name, -1.0) for name in ("fmt", "reward")}
    table = {}
    for name in sorted(recorded):  # GUARD
        table[name] = gather(recorded[name])
    table["loss"] = gather(10.0 + rank)
    return table


def CHECK(results: list[dict[str, list[float]]]) -> None:
    for table in results:
        assert [1.0, -1.0] == table["fmt"]
        assert [10.0, 11.0] == table["loss"]
