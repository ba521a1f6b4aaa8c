"""Advantages do not depend on how a sequence is cut into ranks."""

import pytest
import torch
from rl.advantages import compute_advantages_and_returns
from rl.context_parallel import local_positions

from harness.suites.kl_aliasing import Config


def ppo_of_one_sample(rank, total, response):
    held = local_positions(total, response)
    rollout = {
        "total_lengths": [total],
        "response_lengths": [response],
        "rewards": [1.0],
        "loss_masks": [torch.ones(response)],
        "log_probs": [torch.zeros(len(held))],
        "ref_log_probs": [torch.zeros(len(held))],
        "values": [torch.zeros(len(held))],
    }
    compute_advantages_and_returns(rollout, Config("ppo", "k1", kl_coef=0.05))
    return rollout["advantages"][0].tolist()


@pytest.mark.parametrize("cp", [1, 2, 4])
@pytest.mark.parametrize(("total", "response"), [(13, 9), (9, 4)])
def test_the_reward_is_on_the_last_token(world, cp, total, response):
    """With gamma = lambda = 1 and no values, every token's advantage is the reward."""
    per_rank = world(cp=cp).run(ppo_of_one_sample, total, response)
    assert [a for of_rank in per_rank for a in of_rank] == pytest.approx([1.0] * response)
