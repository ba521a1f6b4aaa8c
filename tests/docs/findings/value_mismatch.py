"""A value is not what `harness.expect` or `harness.expect_same` says it has to be.

The tool cannot know which value is right: a mean over the wrong group is no misuse of a collective. With
`expect` the program compares a value with a reference, with `expect_same` the ranks of a group are compared
with each other. Neither communicates.

Level: error, or a warning where ranks came to a check a different number of times

Fix: Look at the group of the reduction that made the value, and at what it was divided by.

Details:

- `same`: ranks of the group have different values.
- `fewer`: a rank came to the check less often than others.
"""

import torch
import torch.distributed as dist

from harness import Rank, expect_same

WORLD = {"dp": 2, "cp": 2}


def faulty(rank: Rank) -> None:
    loss = torch.tensor([float(rank)])
    dist.all_reduce(loss, group=rank.group("dp"))  # without the context-parallel ranks
    expect_same("loss", loss, over="dp-cp")


def fixed(rank: Rank) -> None:
    loss = torch.tensor([float(rank)])
    dist.all_reduce(loss, group=rank.group("dp-cp"))
    expect_same("loss", loss, over="dp-cp")
