"""Two ranks reduce over a group that leaves them out: torch does nothing and says little."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 4}
EXPECT = Expect("non_member_call", ranks=(2, 3))


def main(rank: Rank, world: Ground) -> float:
    actors = dist.new_group([0, 1, 2, 3] if world.fixed else [0, 1])
    episodes = torch.tensor([float(rank + 1)])
    dist.all_reduce(episodes, group=actors)  # BUG
    return episodes.item()


def CHECK(results: list[float]) -> None:
    assert [10.0] * 4 == results
