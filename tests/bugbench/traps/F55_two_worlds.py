"""One test uses two worlds, one after another, of different shapes."""

import torch
import torch.distributed as dist

from harness import Rank, World
from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: Rank, world: Ground) -> list[float]:
    over_dp = torch.tensor(float(rank + 1))
    dist.all_reduce(over_dp, group=rank.group("dp"))
    over_cp = torch.tensor(float(rank + 1))
    dist.all_reduce(over_cp, group=rank.group("cp"))
    return [over_dp.item(), over_cp.item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 1.0], [3.0, 2.0]] == results
    with World(cp=2) as second:
        assert [[1.0, 3.0], [2.0, 3.0]] == second.run(main, Ground(True, 2, 0))
    with World(dp=2, cp=2) as third:
        expected = [[4.0, 3.0], [6.0, 3.0], [4.0, 7.0], [6.0, 7.0]]
        assert expected == third.run(main, Ground(True, 4, 0))
