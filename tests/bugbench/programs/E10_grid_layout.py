"""Half of the ranks lay the grid out tensor-parallel first, the others data-parallel first."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "tp": 2}
EXPECT = Expect("group_creation", ranks=(0, 1, 2, 3))


def make_groups(rank: int, order: str) -> dict[str, dist.ProcessGroup]:
    """This rank's tp and dp group; ``order`` names the faster axis first."""
    grid = torch.arange(4).view(2, 2)
    fast, slow = order.split("-")
    lists = {fast: grid.tolist(), slow: grid.T.tolist()}
    mine = {}
    for axis in ("tp", "dp"):
        for members in lists[axis]:
            group = dist.new_group(members)  # BUG
            if rank in members:
                assert group is not None
                mine[axis] = group
    return mine


def main(rank: Rank, world: Ground) -> list[int]:
    # The second node was started from the config of an older release.
    groups = make_groups(rank, "tp-dp" if rank < 2 or world.fixed else "dp-tp")
    total = torch.tensor([10**rank])
    dist.all_reduce(total, group=groups["tp"])
    return total.tolist()


def CHECK(results: list[list[int]]) -> None:
    assert [[11], [11], [1100], [1100]] == results
