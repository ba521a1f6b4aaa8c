"""Calls met and went through, but they belong to different places of the program.

Nothing hangs. The operation, the dtype and the shape happen to fit, so a rank's loss is added to another
rank's gradient. The call sites, the loops around them and the labels given with
[`harness.label`](../api.md) show it. Branches that make the same call from different lines are legal
and are not reported.

Level: error, or a warning where the call sites cannot prove it

Fix: Find the call that one rank makes too often or leaves out, or the loop that ranks walk in another order
(a set, a dict filled in another order). A `harness.label` around the calls lets the tool decide where it
can only suspect.

Details:

- `label`: calls under two different labels have met.
"""

import torch
import torch.distributed as dist

from harness import Rank, label

WORLD = {"dp": 2}
METRICS = {"loss": 1.0, "entropy": 10.0}


def faulty(rank: Rank) -> list[float]:
    names = sorted(METRICS, reverse=rank == 1)  # each rank has an order of its own
    return [total(name) for name in names]


def fixed(rank: Rank) -> list[float]:
    return [total(name) for name in sorted(METRICS)]


def total(name: str) -> float:
    value = torch.tensor([METRICS[name]])
    with label(name):
        dist.all_reduce(value)
    return value.item()
