"""A correct whitening and a collection of wrong ones, each with one mistake from the field.

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

# Ranks cannot import the tests, so these functions travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Tensor = torch.Tensor
Stats = tuple[Tensor, Tensor, Tensor]
EPS = 1e-8


def statistics(values: Tensor, mask: Tensor, group: Any, ddof: int = 1) -> Stats:
    """Count, mean and variance of the kept tokens of all ranks, in two passes."""
    keep = mask.bool()
    x = torch.where(keep, values.float(), 0.0)
    first = torch.stack([x.sum(), keep.sum().float()])
    dist.all_reduce(first, group=group)
    n = first[1]
    mean = first[0] / n.clamp(min=1)
    second = torch.where(keep, (x - mean) ** 2, 0.0).sum()
    dist.all_reduce(second, group=group)
    return n, mean, second / (n - ddof).clamp(min=1)


def finish(values: Tensor, stats: Stats) -> Tensor:
    """Apply the statistics, or refuse if there is nothing to take them from."""
    n, mean, var = stats
    if n == 0:
        raise ValueError("every token of every rank is masked out")
    return (values.float() - mean) * torch.rsqrt(var + EPS)


def whiten(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The correct whitening: unbiased, eps under the root, masked-out tokens affine."""
    return finish(values, statistics(values, mask, group))


def whiten_in_mode(
    *,
    ddof: int = 1,
    eps_place: str = "variance",
    shift_mean: bool | str = True,
    masked_out: str = "affine",
    all_masked: str = "raises",
    one_token: str = "zero",
    eps: float = EPS,
) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """Make a correct whitening with other traits."""

    def whiten_with_traits(values: Tensor, mask: Tensor, group: Any) -> Tensor:
        n, mean, var = statistics(values, mask, group, ddof)
        if n == 0:
            if all_masked == "raises":
                raise ValueError("every token of every rank is masked out")
            return {
                "unchanged": values.clone(),
                "zeros": torch.zeros_like(values),
                "nan": torch.full_like(values, torch.nan),
            }[all_masked]
        if n == 1 and one_token == "raises":
            raise ValueError("one token has no variance")
        std = {
            "variance": (var + eps).sqrt(),
            "std": var.sqrt() + eps,
            "clamp_variance": var.clamp(min=eps).sqrt(),
            "clamp_std": var.sqrt().clamp(min=eps),
        }[eps_place]
        x = values.float()
        out = x / std if shift_mean is False else (x - mean) / std
        if shift_mean == "added_back":
            out = out + mean
        other = {"affine": out, "zero": torch.zeros_like(out), "unchanged": x}[masked_out]
        return torch.where(mask.bool(), out, other)

    return whiten_with_traits


@dataclass(frozen=True)
class Mutant:
    """A wrong function, what is wrong, and the traits under which it is judged."""

    name: str
    fn: Callable[..., Any]
    traits: dict[str, Any] = field(default_factory=dict)


MUTANTS: list[Mutant] = []


def mutant(**traits: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a wrong function under its own name."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        MUTANTS.append(Mutant(fn.__name__.replace("_", " "), fn, traits))
        return fn

    return register


# Who shares statistics


@mutant()
def wrong_group(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Data-parallel ranks without context-parallel ones."""
    from megatron.core import mpu

    return whiten(values, mask, mpu.get_data_parallel_group())


@mutant()
def cp_group_only(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Each data-parallel rank for itself."""
    from megatron.core import mpu

    return whiten(values, mask, mpu.get_context_parallel_group())


@mutant()
def world_instead_of_the_group(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The default group: tensor-parallel replicas count twice."""
    return whiten(values, mask, None)


@mutant()
def local_statistics(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """No reduction at all."""
    keep = mask.bool()
    x = values.float()[keep]
    if x.numel() == 0 or not group:
        return values.float() if values.numel() == 0 else whiten(values, mask, group)
    var = x.var() if x.numel() > 1 else torch.zeros(())
    return (values.float() - x.mean()) * torch.rsqrt(var + EPS)


@mutant()
def mean_of_means(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Means and variances of the ranks averaged as if all held equally many tokens."""
    keep = mask.bool()
    x = values.float()[keep]
    n = x.numel()
    s = torch.stack(
        [
            x.mean() if n else torch.zeros(()),
            x.var() if n > 1 else torch.zeros(()),
            torch.tensor(float(n > 0)),
            torch.tensor(float(n)),
        ]
    )
    dist.all_reduce(s, group=group)
    return finish(values, (s[3], s[0] / s[2].clamp(min=1), s[1] / s[2].clamp(min=1)))


@mutant()
def only_the_first_tp_rank_whitens(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Other tensor-parallel ranks keep what came in."""
    from megatron.core import mpu

    out = whiten(values, mask, group)
    return out if mpu.get_tensor_model_parallel_rank() == 0 else values.float()


@mutant()
def average_where_a_sum_is_meant(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The count is averaged over ranks, the sums are not."""
    keep = mask.bool()
    x = torch.where(keep, values.float(), 0.0)
    s = torch.stack([x.sum(), keep.sum().float()])
    dist.all_reduce(s, group=group)
    mean, n = s[0] / s[1].clamp(min=1), s[1]
    second = torch.where(keep, (x - mean) ** 2, 0.0).sum()
    dist.all_reduce(second, group=group)
    return finish(values, (n, mean, second / (n / dist.get_world_size(group) - 1).clamp(min=1)))


# Who takes part


@mutant()
def guard_on_numel(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """A rank without tokens skips the collective."""
    return whiten(values, mask, group) if mask.numel() > 0 else values.float()


@mutant()
def guard_on_mask_any(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """A rank whose tokens are all masked out, or that has none, skips the collective."""
    return whiten(values, mask, group) if mask.any() else values.float()


@mutant()
def guard_on_a_local_mask_of_zeros(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """As before, but a rank without tokens does take part; the globally empty case is checked."""
    count = mask.bool().sum().float()
    dist.all_reduce(count, group=group)
    if count > 1 and mask.numel() and not mask.any():
        return values.float()
    return whiten(values, mask, group)


# The formula


@mutant()
def biased_for_unbiased(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The variance divides by n."""
    return finish(values, statistics(values, mask, group, ddof=0))


@mutant()
def unbiased_for_biased(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The variance divides by n − 1 where n is declared."""
    return finish(values, statistics(values, mask, group, ddof=1))


MUTANTS[-1].traits["ddof"] = 0


@mutant(ddof="auto")
def another_ddof_on_one_rank(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Two code paths: the one for a single rank is biased, the distributed one is not."""
    ddof = 0 if dist.get_world_size(group) == 1 else 1
    return finish(values, statistics(values, mask, group, ddof))


@mutant()
def mean_not_taken_off(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Scaled only, where a shift is declared."""
    n, mean, var = statistics(values, mask, group)
    return finish(values + mean, (n, mean, var))


@mutant()
def eps_outside_the_root(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """std + eps where sqrt(var + eps) is declared."""
    n, mean, var = statistics(values, mask, group)
    finish(values, (n, mean, var))
    return (values.float() - mean) / (var.sqrt() + EPS)


@mutant(eps_place="std")
def eps_inside_the_root(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """sqrt(var + eps) where std + eps is declared."""
    return whiten(values, mask, group)


@mutant()
def another_eps(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """1e-5 where 1e-8 is declared."""
    n, mean, var = statistics(values, mask, group)
    return finish(values, (n, mean, var + 1e-5))


@mutant()
def no_eps(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Nothing keeps the division finite, except where there is a single token."""
    n, mean, var = statistics(values, mask, group)
    finish(values, (n, mean, var))
    if n == 1:
        return torch.zeros_like(values)
    # Small variances are given their eps back: this is about a variance of zero alone.
    return (values.float() - mean) * torch.rsqrt(torch.where(var > 0, var + EPS, var))


@mutant()
def correction_at_one_token(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """n / (n − 1) also where n is 1."""
    n, mean, var = statistics(values, mask, group, ddof=0)
    return finish(values, (n, mean, var * (n / (n - 1))))


@mutant()
def one_pass_float32_variance(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """E[x²] − E[x]², which cancels; a negative variance is clamped."""
    keep = mask.bool()
    x = torch.where(keep, values.float(), 0.0)
    s = torch.stack([x.sum(), (x * x).sum(), keep.sum().float()])
    dist.all_reduce(s, group=group)
    n = s[2]
    mean = s[0] / n.clamp(min=1)
    var = (s[1] / n.clamp(min=1) - mean**2).clamp(min=0)
    return finish(values, (n, mean, var * n / (n - 1).clamp(min=1)))


@mutant()
def bfloat16_accumulation(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The statistics are kept in the dtype of the input."""
    n, mean, var = statistics(values, mask, group)
    return finish(values, (n, mean.to(values.dtype).float(), var))


# The mask


@mutant()
def mask_ignored(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Every token counts, masked out or not; only the globally empty mask is looked at."""
    kept = mask.bool().sum().float()
    dist.all_reduce(kept, group=group)
    n, mean, var = statistics(values, torch.ones_like(mask), group)
    return finish(values, (kept.clamp(max=float(n)), mean, var))


@mutant()
def mask_for_the_sum_but_not_for_the_count(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Divides by all tokens."""
    _, _, var = statistics(values, mask, group)
    keep = mask.bool()
    s = torch.stack(
        [
            torch.where(keep, values.float(), 0.0).sum(),
            torch.tensor(float(keep.numel())),
            keep.sum().float(),
        ]
    )
    dist.all_reduce(s, group=group)
    return finish(values, (s[2], s[0] / s[1].clamp(min=1), var))


@mutant()
def masked_out_tokens_zeroed(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Zero at masked-out tokens where the same shift and scale are declared."""
    return torch.where(mask.bool(), whiten(values, mask, group), 0.0)


@mutant()
def nan_through_mask_multiplication(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """values * mask, where NaN * 0 is NaN."""
    m = mask.float()
    s = torch.stack([(values.float() * m).sum(), m.sum()])
    dist.all_reduce(s, group=group)
    mean, n = s[0] / s[1].clamp(min=1), s[1]
    second = (((values.float() - mean) ** 2) * m).sum()
    dist.all_reduce(second, group=group)
    return finish(values, (n, mean, second / (n - 1).clamp(min=1)))


@mutant(masked_out="zero")
def output_multiplied_by_the_mask(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The result is zeroed by multiplication, so that NaN stays."""
    return whiten(values, mask, group) * mask.float()


@mutant()
def bool_mask_unsupported(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """1 - mask, which bool tensors refuse."""
    return whiten(values, 1.0 - (1.0 - mask), group)


@mutant()
def int_mask_used_as_index(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """values[mask] selects with bool and indexes with int."""
    if mask.is_floating_point():
        mask = mask.bool()
    x = values.float()[mask] if values.numel() else values.float()
    s = torch.stack([x.sum(), torch.tensor(float(x.numel()))])
    dist.all_reduce(s, group=group)
    mean, n = s[0] / s[1].clamp(min=1), s[1]
    second = ((x - mean) ** 2).sum()
    dist.all_reduce(second, group=group)
    return finish(values, (n, mean, second / (n - 1).clamp(min=1)))


@mutant()
def empty_mask_clamped_to_one(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """A globally empty mask gives numbers where an error is declared."""
    n, mean, var = statistics(values, mask, group)
    return finish(values, (n.clamp(min=1), mean, var))


@mutant()
def empty_mask_gives_nan(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """0/0, silently."""
    n, mean, var = statistics(values, mask, group)
    return finish(values, (n.clamp(min=1), mean / n.clamp(max=1), var))


@mutant()
def empty_mask_raises_on_the_first_rank_only(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """Rank 0 refuses, the others go on with NaN."""
    n, mean, var = statistics(values, mask, group)
    if dist.get_rank(group) == 0:
        return finish(values, (n, mean, var))
    return (values.float() - mean) * torch.rsqrt(var + EPS)


# The caller's tensors


@mutant()
def input_whitened_in_place(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The caller's own tensor is overwritten."""
    out = whiten(values, mask, group)
    values.copy_(out)
    return out


@mutant()
def input_scaled_and_scaled_back(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The caller's tensor is written twice and ends as it began."""
    values.mul_(2.0)
    out = whiten(values / 2.0, mask, group)
    values.mul_(0.5)
    return out


@mutant()
def mask_inverted_in_place(values: Tensor, mask: Tensor, group: Any) -> Tensor:
    """The caller's mask is turned round."""
    out = whiten(values, mask, group)
    mask.copy_(1 - mask.float())
    return out
