"""Whitening is global: over all tokens of all ranks, whoever holds them."""

import pytest
import torch
from rl.advantages import compute_advantages_and_returns
from rl.context_parallel import local_positions
from rl.whitening import masked_whiten, whiten_batch

from harness import factorizations
from harness.suites import round_robin_shard, whitening
from harness.suites.kl_aliasing import Config

# Tokens in all, tokens of the response, reward.
SAMPLES = [(64, 48, 1.5), (100, 90, -0.5), (40, 12, -1.0), (256, 16, 2.0)]


def whiten_share(rank, samples):
    """Runs on every rank: whiten the tokens held there; a value for each of its samples."""
    mine = round_robin_shard(samples, rank.layout.dp)[rank.dp]
    rewards = [torch.full((len(local_positions(t, n)),), reward) for t, n, reward in mine]
    whitened = whiten_batch(rewards, [torch.ones_like(r) for r in rewards])
    return {s: w[0].item() for s, w in zip(mine, whitened, strict=True) if len(w)}


@pytest.mark.parametrize(("dp", "cp"), factorizations(4))
def test_whitening_is_global(world, dp, cp):
    """Every rank whitens by the mean and deviation of all tokens of the batch."""
    tokens = torch.cat([torch.full((n,), reward) for _, n, reward in SAMPLES])
    for of_rank in world(dp=dp, cp=cp).run(whiten_share, SAMPLES):
        for (_, _, reward), whitened in of_rank.items():
            assert whitened == pytest.approx(((reward - tokens.mean()) / tokens.std()).item())


# One test for each law and world. Where your function differs on purpose, say so: ddof=0, eps=…
@whitening.parametrize(masked_whiten, worlds=[(1, 1), (2, 2)])
def test_masked_whiten(check):
    """The whitening itself keeps the laws."""
    check()


def whitened_advantages(rank, rollout):
    config = Config("grpo", "k1", kl_coef=0.0)
    return compute_advantages_and_returns(rollout, config, whiten=True)["advantages"]


# The same laws for the whole function, which has to find the group and the masks itself.
@whitening.parametrize(whitening.rollout(whitened_advantages), worlds=[(1, 2)])
def test_whitened_advantages(check):
    """The advantages of a rollout keep the laws."""
    check()
