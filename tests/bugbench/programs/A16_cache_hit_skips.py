"""The longest sequence is agreed on at each cache miss, but the caches differ by rank."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="call 5")

LENGTHS = [[5, 7, 9], [5, 8, 5]]


class Buckets:
    """Padded lengths, by the length of this rank's own batch."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.padded: dict[int, int] = {}

    def agree(self, length: int) -> int:
        if self.enabled and length in self.padded:  # GUARD
            return self.padded[length]
        longest = torch.tensor(length)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)  # BUG
        self.padded[length] = int(longest)
        return int(longest)


def main(rank: int, world: Ground) -> list[float]:
    buckets = Buckets(enabled=not world.fixed)
    losses = []
    for length in LENGTHS[rank]:
        batch = torch.ones(buckets.agree(length))
        loss = batch.sum()
        dist.all_reduce(loss)
        losses.append(loss.item())
    return losses


def CHECK(results: list[list[float]]) -> None:
    assert [[10.0, 16.0, 18.0]] * 2 == results
