"""trl #6380: token-weighted metrics are averaged per rank, and the averages averaged."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))
CLIPPED = ([1.0] * 3 + [0.0] * 9, [1.0] * 3 + [0.0])


def main(rank: Rank, world: Ground) -> float:
    clipped = torch.tensor(CLIPPED[rank])
    if world.fixed:
        parts = torch.stack([clipped.sum(), torch.tensor(float(clipped.numel()))])
    else:
        parts = torch.stack([clipped.mean(), torch.tensor(1.0)])
    dist.all_reduce(parts)  # BUG
    ratio = parts[0] / parts[1]
    harness.expect("clip_ratio", ratio, torch.tensor(CLIPPED[0] + CLIPPED[1]).mean())  # BUG
    return ratio.item()


def CHECK(results: list[float]) -> None:
    assert [0.375, 0.375] == results
