"""From a rollout to advantages and returns, for six estimators.

A rollout is this rank's share of a batch, a dict of lists with one entry for each sample:
``total_lengths``, ``response_lengths``, ``rewards`` (one for the whole sample), ``loss_masks``
(whole responses), and ``log_probs``, ``ref_log_probs``, ``values`` (the response tokens that this
rank holds). ``config`` has ``estimator``, ``kl_type``, ``kl_coef``, ``gamma`` and ``lambd``.
"""

import torch

from rl.context_parallel import gather_response, local_positions
from rl.whitening import whiten_batch


def compute_advantages_and_returns(rollout, config, whiten=False):
    """Put ``kl``, ``advantages`` and ``returns`` into the rollout, for the tokens held here."""
    kl = [
        kl_estimate(ours, reference, config.kl_type)
        for ours, reference in zip(rollout["log_probs"], rollout["ref_log_probs"], strict=True)
    ]
    rollout["kl"] = kl  # logged after training: from here on nobody may write to it
    advantages, returns = ESTIMATORS[config.estimator](rollout, kl, config)
    if whiten:
        advantages = whiten_batch(advantages, local_masks(rollout))
    rollout["advantages"], rollout["returns"] = advantages, returns
    return rollout


def kl_estimate(log_probs, ref_log_probs, kl_type):
    """The per-token estimate of the KL to the reference policy (k1, k2, k3 or low_var_kl)."""
    ratio = log_probs - ref_log_probs
    if kl_type == "k1":
        return ratio
    if kl_type == "k2":
        return ratio.square() / 2
    if kl_type in ("k3", "low_var_kl"):
        return torch.expm1(-ratio) + ratio
    raise ValueError(f"unknown KL type {kl_type!r}")


def of_the_group(rollout, kl, config):
    """grpo, gspo, cispo: each token has its sample's reward; the KL goes into the loss."""
    returns = [torch.full_like(k, r) for k, r in zip(kl, rollout["rewards"], strict=True)]
    return [r.clone() for r in returns], returns


def reinforce_with_baseline(rollout, kl, config):
    """reinforce_plus_plus_baseline: the sample's reward, less the KL penalty of the token."""
    returns = [r - config.kl_coef * k for k, r in zip(kl, rollout["rewards"], strict=True)]
    return [r.clone() for r in returns], returns


def reinforce(rollout, kl, config):
    """reinforce_plus_plus: discounted sums of the token rewards."""
    returns = [
        hold(discounted(rewards, config.gamma), *lengths)
        for rewards, lengths in zip(
            token_rewards(rollout, kl, config), shapes(rollout), strict=True
        )
    ]
    return [r.clone() for r in returns], returns


def ppo(rollout, kl, config):
    """ppo: generalised advantage estimation (Schulman et al. 2016) with the critic's values."""
    advantages, returns = [], []
    for rewards, local_values, lengths in zip(
        token_rewards(rollout, kl, config), rollout["values"], shapes(rollout), strict=True
    ):
        values = gather_response(local_values, *lengths)
        following = torch.cat([values[1:], torch.zeros(1)])
        deltas = rewards + config.gamma * following - values
        advantage = hold(discounted(deltas, config.gamma * config.lambd), *lengths)
        advantages.append(advantage)
        returns.append(advantage + local_values)
    return advantages, returns


ESTIMATORS = {
    "grpo": of_the_group,
    "gspo": of_the_group,
    "cispo": of_the_group,
    "ppo": ppo,
    "reinforce_plus_plus": reinforce,
    "reinforce_plus_plus_baseline": reinforce_with_baseline,
}


def token_rewards(rollout, kl, config):
    """For each sample the whole response: −kl_coef × KL, and the reward on the last token.

    The last token may live on any rank, so the reward is added once the response is whole.
    """
    whole = []
    for k, reward, lengths in zip(kl, rollout["rewards"], shapes(rollout), strict=True):
        rewards = gather_response(-config.kl_coef * k, *lengths)
        rewards[-1] += reward
        whole.append(rewards)
    return whole


def discounted(values, factor):
    """out[i] = values[i] + factor * out[i + 1]."""
    out = torch.empty_like(values)
    carry = torch.zeros(())
    for i in reversed(range(len(values))):
        out[i] = carry = values[i] + factor * carry
    return out


def shapes(rollout):
    """(total, response) of each sample."""
    return list(zip(rollout["total_lengths"], rollout["response_lengths"], strict=True))


def hold(whole, total, response):
    """Of a whole response, the tokens that this rank holds."""
    return whole[local_positions(total, response)]


def local_masks(rollout):
    """Of each loss mask, the tokens that this rank holds."""
    masks = zip(rollout["loss_masks"], shapes(rollout), strict=True)
    return [hold(mask, *lengths) for mask, lengths in masks]
