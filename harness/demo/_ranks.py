"""The code under test, right and wrong. Runs in ranks: torch, no pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from harness.layout import Rank
from harness.suites import zigzag_slices

Sequence3 = tuple[int, int, float]
"""Tokens in all, tokens of the response, and the reward of one sequence."""


def tokens_held(rank: Rank, total: int, response: int) -> int:
    """How many response tokens of a sequence this rank owns under zigzag context parallelism."""
    slices = zigzag_slices(total, response, rank.layout.cp)[rank.cp]
    return sum(len(range(*piece.indices(response))) for piece in slices)


# -- whitening: the right and the wrong group -------------------------------------------------


def whiten(values: torch.Tensor, mask: torch.Tensor, group: Any) -> torch.Tensor:
    """Subtract the mean and divide by the standard deviation of all kept tokens of ``group``."""
    sums = torch.stack([(values * mask).sum(), mask.sum()])
    dist.all_reduce(sums, group=group)
    total, count = sums.unbind()
    mean = total / count
    squares = ((values - mean) ** 2 * mask).sum()
    dist.all_reduce(squares, group=group)
    return (values - mean) * torch.rsqrt(squares / (count - 1) + 1e-8)


def whiten_right(values: torch.Tensor, mask: torch.Tensor, group: Any = None) -> torch.Tensor:
    """Statistics over every rank that holds tokens."""
    from megatron.core import mpu

    return whiten(values, mask, mpu.get_data_parallel_group(with_context_parallel=True))


def whiten_wrong(values: torch.Tensor, mask: torch.Tensor, group: Any = None) -> torch.Tensor:
    """Statistics over the data-parallel ranks alone, which is what the getter gives by default."""
    from megatron.core import mpu

    return whiten(values, mask, mpu.get_data_parallel_group())


def advantages(
    rank: Rank, sequences: Sequence[Sequence3], right: bool
) -> tuple[list[float], list[int]]:
    """Whiten this rank's tokens of all sequences.

    Returns for each sequence the advantage that this rank gives it, and how many of its response
    tokens this rank owns. Each sequence also has one masked-out padding token: it enters no sum,
    and it shows what the rank would give a sequence of which it owns nothing.
    """
    owned = [tokens_held(rank, total, response) for total, response, _ in sequences]
    values = torch.cat(
        [torch.full((n + 1,), s[2]) for n, s in zip(owned, sequences, strict=True)],
    )
    mask = torch.cat([torch.cat([torch.ones(n), torch.zeros(1)]) for n in owned])
    whitened = (whiten_right if right else whiten_wrong)(values, mask)
    return [part[0].item() for part in torch.split(whitened, [n + 1 for n in owned])], owned


# -- a guard around a collective ---------------------------------------------------------------


def guarded_mean(rank: Rank, sequences_of: Sequence[Sequence[Sequence3]]) -> float:
    """The mean reward of all tokens, with a guard that looks harmless.

    ``sequences_of`` has the sequences of each data-parallel rank.
    """
    owned = [(tokens_held(rank, total, n), reward) for total, n, reward in sequences_of[rank.dp]]
    rewards = torch.cat([torch.full((n,), reward) for n, reward in owned])
    mask = torch.ones_like(rewards)
    sums = torch.stack([rewards.sum(), mask.sum()])
    if mask.numel() > 0:
        dist.all_reduce(sums, group=rank.group("dp-cp"))
    return (sums[0] / sums[1]).item()


def tokens_of_rank(rank: Rank, sequences_of: Sequence[Sequence[Sequence3]]) -> int:
    """How many tokens this rank owns."""
    return sum(tokens_held(rank, total, n) for total, n, _ in sequences_of[rank.dp])


# -- a KL that is logged and then written to -----------------------------------------------------


def log_kl(rollout: dict[str, Any]) -> None:
    """Put the KL of each token (estimator k1) into the rollout, from where it is logged."""
    rollout["kl"] = [
        ours - reference
        for ours, reference in zip(rollout["log_probs"], rollout["ref_log_probs"], strict=True)
    ]


def shape_rewards_in_place(rollout: dict[str, Any], kl_coef: float) -> None:
    """Token rewards, −kl_coef × KL plus the reward on the last token, made out of the KL itself."""
    shaped = []
    for kl, reward in zip(rollout["kl"], rollout["rewards"], strict=True):
        kl *= -kl_coef
        kl[-1] += reward
        shaped.append(kl)
    rollout["advantages"] = [kl.clone() for kl in shaped]
    rollout["returns"] = rollout["advantages"]


def advantages_in_place(rollout: dict[str, Any], config: Any) -> None:
    """The whole function, in the form in which the suite calls it."""
    log_kl(rollout)
    shape_rewards_in_place(rollout, config.kl_coef)


def kl_before_and_after(
    rank: Rank,
    log_probs: Sequence[float],
    reference: Sequence[float],
    reward: float,
    kl_coef: float,
) -> tuple[list[float], list[float]]:
    """The KL in the log when it is put there, and when it is read."""
    rollout: dict[str, Any] = {
        "log_probs": [torch.tensor(log_probs)],
        "ref_log_probs": [torch.tensor(reference)],
        "rewards": [reward],
    }
    log_kl(rollout)
    before = rollout["kl"][0].tolist()
    shape_rewards_in_place(rollout, kl_coef)
    return before, rollout["kl"][0].tolist()
