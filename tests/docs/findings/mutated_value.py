"""A value that was handed to `harness.unchanged` was written to later.

Typical: a tensor goes into the log, and a later step works on it in place, so that the log shows another
quantity.

Level: error

Fix: Log a copy (`value.clone()`), or use the operation that is not in place.
"""

import torch

from harness import unchanged

WORLD = {"dp": 1}


def faulty(rank: int) -> None:
    kl = torch.tensor([0.1, 0.2])
    log = {"kl": kl}
    unchanged("kl", log["kl"])
    kl.mul_(-0.05)  # the penalty, computed in place


def fixed(rank: int) -> None:
    kl = torch.tensor([0.1, 0.2])
    log = {"kl": kl}
    unchanged("kl", log["kl"])
    penalty = kl * -0.05
    assert penalty.shape == log["kl"].shape
