"""Two expert groups exchange a different number of micro-batches, with uneven splits."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 4, "ep": 2}


def main(rank: Rank, world: Ground) -> float:
    group = rank.group("ep")
    handled = torch.zeros(1)
    for micro in range(2 if rank < 2 else 3):
        # How many tokens this rank sends to each of the two experts of its group.
        sends = torch.tensor([micro + 1, int(rank.ep)])
        receives = torch.empty_like(sends)
        dist.all_to_all_single(receives, sends, group=group)
        tokens = torch.ones(int(sends.sum()))
        arrived = torch.empty(int(receives.sum()))
        dist.all_to_all_single(arrived, tokens, receives.tolist(), sends.tolist(), group=group)
        handled += arrived.sum()
    dist.all_reduce(handled, group=rank.group("edp"))
    return handled.item()


def CHECK(results: list[float]) -> None:
    assert [18.0, 5.0, 18.0, 5.0] == results
