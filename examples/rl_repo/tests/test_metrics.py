"""What is logged is the mean over the batch, and only the last pipeline stage has it."""

import pytest
import torch
from rl.metrics import log_rollout

REWARDS = [[1.0, 2.0], [6.0]]  # of the two data-parallel ranks: not equally many


def log_share(rank, rewards):
    mine = rewards[rank.dp]
    return log_rollout({"rewards": mine, "kl": [torch.full((4,), reward) for reward in mine]})


def test_metrics_are_means_over_the_batch(world):
    """The ranks of the last stage agree on the mean over all samples and tokens."""
    first, second, *last_stage = world(dp=2, pp=2).run(log_share, REWARDS)
    assert first is second is None
    assert last_stage == [pytest.approx({"reward": 3.0, "kl": 3.0})] * 2
