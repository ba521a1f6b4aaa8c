"""A correct computation of advantages by six estimators, and wrong ones with one mistake each.

Runs in ranks: torch, no pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist

from harness.suites import zigzag_slices
from harness.suites.kl_aliasing import Config

# Ranks cannot import the tests, so these functions travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Tensor = torch.Tensor
Rollout = dict[str, Any]


def estimate_kl(log_probs: Tensor, ref_log_probs: Tensor, kl_type: str) -> Tensor:
    """The per-token estimate, always a new tensor."""
    d = log_probs.float() - ref_log_probs.float()
    if kl_type == "k1":
        return d
    if kl_type == "k2":
        return d**2 / 2
    return torch.expm1(-d) + d


def all_kl(rollout: Rollout, kl_type: str) -> list[Tensor]:
    """The estimate for each sample of this rank."""
    return [
        estimate_kl(p, q, kl_type)
        for p, q in zip(rollout["log_probs"], rollout["ref_log_probs"], strict=True)
    ]


def gather(rollout: Rollout, local: list[Tensor]) -> list[Tensor]:
    """The whole responses from the pieces that the context-parallel ranks hold."""
    from megatron.core import mpu

    lengths = rollout["response_lengths"]
    rank, size = mpu.get_context_parallel_rank(), mpu.get_context_parallel_world_size()
    if size == 1:
        return [piece.clone() for piece in local]
    flat = torch.zeros(sum(lengths))
    fulls = list(torch.split(flat, lengths))
    for full, mine, total in zip(fulls, local, rollout["total_lengths"], strict=True):
        start = 0
        for piece in zigzag_slices(total, len(full), size)[rank]:
            length = piece.stop - piece.start
            full[piece] = mine[start : start + length]
            start += length
    dist.all_reduce(flat, group=mpu.get_context_parallel_group())
    return fulls


def scatter(full: Tensor, total: int, response: int) -> Tensor:
    """The pieces of a whole response that this rank holds, one after another."""
    from megatron.core import mpu

    rank, size = mpu.get_context_parallel_rank(), mpu.get_context_parallel_world_size()
    pieces = [full[piece] for piece in zigzag_slices(total, response, size)[rank]]
    return torch.cat(pieces) if pieces else full[:0]


def discounted(rewards: Tensor, values: Tensor, gamma: float, lambd: float) -> Tensor:
    """Generalised advantage estimation over one whole response."""
    out: list[float] = []
    running, following = 0.0, 0.0
    for reward, value in zip(reversed(rewards.tolist()), reversed(values.tolist()), strict=True):
        running = reward + gamma * following - value + gamma * lambd * running
        out.append(running)
        following = value
    return torch.tensor(out[::-1])


def estimate(
    rollout: Rollout, config: Config, kl: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Advantages and returns for this rank's tokens; leaves ``kl`` alone."""
    rewards = rollout["rewards"]
    if config.estimator == "reinforce_plus_plus_baseline":
        advantages = [r - config.kl_coef * k for r, k in zip(rewards, kl, strict=True)]
        return advantages, advantages
    if config.estimator not in ("ppo", "reinforce_plus_plus"):  # grpo and its relatives
        returns = [torch.full_like(k, r) for r, k in zip(rewards, kl, strict=True)]
        return list(returns), returns
    advantages, returns = [], []
    penalties, all_values = gather(rollout, kl), gather(rollout, rollout["values"])
    for i, (penalty, values) in enumerate(zip(penalties, all_values, strict=True)):
        shape = (rollout["total_lengths"][i], rollout["response_lengths"][i])
        shaped = -config.kl_coef * penalty
        shaped[rollout["loss_masks"][i].nonzero()[-1]] += rewards[i]
        if config.estimator == "ppo":
            full = discounted(shaped, values, config.gamma, config.lambd)
            advantages.append(scatter(full, *shape))
            returns.append(scatter(full + values, *shape))
        else:
            full = discounted(shaped, torch.zeros_like(values), config.gamma, 1.0)
            returns.append(scatter(full, *shape))
    return (advantages or list(returns)), returns


def compute(rollout: Rollout, config: Config) -> None:
    """The correct function: logs the KL, adds advantages and returns, writes nothing else."""
    kl = all_kl(rollout, config.kl_type)
    rollout["kl"] = kl
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


def compute_and_return(rollout: Rollout, config: Config) -> dict[str, Any]:
    """The correct function in its other form: returns a new dict and leaves the rollout alone."""
    kl = all_kl(rollout, config.kl_type)
    advantages, returns = estimate(rollout, config, kl)
    return {"kl": kl, "advantages": advantages, "returns": returns}


@dataclass(frozen=True)
class KlMutant:
    """A wrong function, what is wrong, and what is declared of it."""

    name: str
    fn: Callable[[Rollout, Config], Any]
    declared: dict[str, Any] = field(default_factory=dict)


def whitened_grpo(rank: Any, rollout: Rollout) -> list[Tensor]:
    """Advantages of grpo, whitened: a whole function for the whitening suite's rollout form."""
    return whiten_rollout(rank, rollout, rank.group("dp-cp"), guard=False)


def whitened_grpo_with_guard_and_wrong_group(rank: Any, rollout: Rollout) -> list[Tensor]:
    """The same with two bugs from the field."""
    return whiten_rollout(rank, rollout, rank.group("dp"), guard=True)


def whiten_rollout(rank: Any, rollout: Rollout, group: Any, *, guard: bool) -> list[Tensor]:
    """Compute advantages and whiten them over a group."""
    compute(rollout, Config("grpo", "k1", 0.0))
    masks = [
        scatter(mask, total, response)
        for mask, total, response in zip(
            rollout["loss_masks"],
            rollout["total_lengths"],
            rollout["response_lengths"],
            strict=True,
        )
    ]
    flat, mask = torch.cat(rollout["advantages"]), torch.cat(masks).bool()
    if guard and not mask.numel():
        return list(rollout["advantages"])
    kept = torch.where(mask, flat, 0.0)
    first = torch.stack([kept.sum(), mask.sum().float()])
    dist.all_reduce(first, group=group)
    if first[1] == 0:
        raise ValueError("every token of every rank is masked out")
    mean = first[0] / first[1]
    second = torch.where(mask, (flat - mean) ** 2, 0.0).sum()
    dist.all_reduce(second, group=group)
    var = second / (first[1] - 1).clamp(min=1)
    out = (flat - mean) * torch.rsqrt(var + 1e-8)
    return list(torch.split(out, [len(a) for a in rollout["advantages"]]))


KL_MUTANTS: list[KlMutant] = []
Fn = Callable[[Rollout, Config], Any]


def mutant(**declared: Any) -> Callable[[Fn], Fn]:
    """Register a wrong function under its own name."""

    def register(fn: Fn) -> Fn:
        KL_MUTANTS.append(KlMutant(fn.__name__.replace("_", " "), fn, declared))
        return fn

    return register


def shape_in_place(rollout: Rollout, config: Config) -> None:
    """The bug from the field: the penalty is computed in the tensors that are logged."""
    for k, reward in zip(rollout["kl"], rollout["rewards"], strict=True):
        k *= -config.kl_coef
        if len(k):
            k[-1] += reward


# Writes to what was logged


@mutant()
def kl_shaped_in_place(rollout: Rollout, config: Config) -> None:
    """The logged KL becomes the shaped reward."""
    compute(rollout, config)
    shape_in_place(rollout, config)


@mutant()
def kl_shaped_in_place_at_nonzero_coefficient(rollout: Rollout, config: Config) -> None:
    """As before, where there is a penalty."""
    compute(rollout, config)
    if config.kl_coef:
        shape_in_place(rollout, config)


@mutant()
def kl_shaped_in_place_at_zero_coefficient(rollout: Rollout, config: Config) -> None:
    """As before, where there is none."""
    compute(rollout, config)
    if not config.kl_coef:
        shape_in_place(rollout, config)


@mutant()
def kl_changed_and_changed_back(rollout: Rollout, config: Config) -> None:
    """The numbers are right at the end, but the tensor was written twice."""
    compute(rollout, config)
    for k in rollout["kl"]:
        k.mul_(-2.0)
        k.mul_(-0.5)


@mutant()
def logged_kl_replaced_by_the_shaped_reward(rollout: Rollout, config: Config) -> None:
    """The entry is set a second time."""
    compute(rollout, config)
    rollout["kl"] = [
        r - config.kl_coef * k for k, r in zip(rollout["kl"], rollout["rewards"], strict=True)
    ]


@mutant()
def element_of_the_logged_list_replaced(rollout: Rollout, config: Config) -> None:
    """The logged list itself is reused for the penalties."""
    compute(rollout, config)
    for i, k in enumerate(rollout["kl"]):
        rollout["kl"][i] = -config.kl_coef * k


# Memory shared with what is logged


@mutant(returned=["advantages", "returns", "kl_penalty"])
def kl_handed_out_as_the_penalty(rollout: Rollout, config: Config) -> None:
    """A second name for the same tensors."""
    compute(rollout, config)
    rollout["kl_penalty"] = list(rollout["kl"])


@mutant(returned=["token_rewards"])
def kl_handed_out_as_a_view(rollout: Rollout, config: Config) -> None:
    """Another tensor object over the same memory."""
    compute(rollout, config)
    rollout["token_rewards"] = [k.view(-1)[:1] for k in rollout["kl"]]


@mutant(logged=["kl", "raw_rewards"], returned=["advantages", "returns"])
def rewards_logged_and_returned_as_one(rollout: Rollout, config: Config) -> None:
    """Another logged field than the KL shares memory with the returns."""
    compute(rollout, config)
    rollout["raw_rewards"] = [r.detach() for r in rollout["returns"]]


@mutant()
def kl_aliased_to_the_rewards(rollout: Rollout, config: Config) -> None:
    """The advantages are built in the memory of the KL."""
    compute(rollout, config)
    shape_in_place(rollout, config)
    rollout["advantages"] = list(rollout["kl"])


# Another number


@mutant()
def k2_for_k1(rollout: Rollout, config: Config) -> None:
    """The wrong estimate."""
    kl_type = {"k1": "k2"}.get(config.kl_type, config.kl_type)
    kl = all_kl(rollout, kl_type)
    rollout["kl"] = kl
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


@mutant()
def k3_with_the_sign_turned(rollout: Rollout, config: Config) -> None:
    """Policy and reference are exchanged."""
    turned = {
        **rollout,
        "log_probs": rollout["ref_log_probs"],
        "ref_log_probs": rollout["log_probs"],
    }
    kl = all_kl(turned if config.kl_type == "k3" else rollout, config.kl_type)
    rollout["kl"] = kl
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


@mutant()
def kl_logged_with_its_coefficient(rollout: Rollout, config: Config) -> None:
    """What is logged is the penalty."""
    kl = all_kl(rollout, config.kl_type)
    rollout["kl"] = [config.kl_coef * k for k in kl]
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


@mutant()
def no_kl_at_zero_coefficient(rollout: Rollout, config: Config) -> None:
    """Zeros are logged where nothing is penalised, and that is not declared."""
    kl = all_kl(rollout, config.kl_type)
    rollout["kl"] = kl if config.kl_coef else [torch.zeros_like(k) for k in kl]
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


@mutant()
def kl_of_the_reference_alone(rollout: Rollout, config: Config) -> None:
    """A stale copy: the policy's log-probabilities are those of the reference, times two."""
    stale = {**rollout, "log_probs": [2 * q for q in rollout["ref_log_probs"]]}
    kl = all_kl(stale, config.kl_type)
    rollout["kl"] = kl
    rollout["advantages"], rollout["returns"] = estimate(rollout, config, kl)


# The caller's rollout


@mutant()
def log_probs_overwritten(rollout: Rollout, config: Config) -> None:
    """The log ratio is computed in the caller's log-probabilities."""
    compute(rollout, config)
    for p, q in zip(rollout["log_probs"], rollout["ref_log_probs"], strict=True):
        p -= q


@mutant()
def log_probs_entry_replaced(rollout: Rollout, config: Config) -> None:
    """The caller's entry is set to other tensors."""
    compute(rollout, config)
    rollout["log_probs"] = [p.clone() for p in rollout["log_probs"]]


@mutant()
def rewards_list_shaped_in_place(rollout: Rollout, config: Config) -> None:
    """The caller's list of rewards gets the penalty."""
    compute(rollout, config)
    for i, k in enumerate(rollout["kl"]):
        rollout["rewards"][i] -= float(k.sum()) + 1.0


@mutant()
def loss_mask_written_and_written_back(rollout: Rollout, config: Config) -> None:
    """The caller's mask is written twice and ends as it began."""
    compute(rollout, config)
    for mask in rollout["loss_masks"]:
        mask.mul_(-1)
        mask.mul_(-1)


@mutant()
def rewards_taken_out(rollout: Rollout, config: Config) -> None:
    """The caller's entry is popped."""
    compute(rollout, config)
    rollout.pop("rewards")
