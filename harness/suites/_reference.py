"""Whitening in float64, from its definition: what the function under test is compared with.

It shares no code with any function under test, and no torch: sums are exact (``math.fsum``), the
variance is taken around the mean in a second pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.suites._batch import Batch
from harness.suites._traits import Traits


def mean_and_variance(kept: Sequence[float], ddof: int) -> tuple[float, float]:
    """Return mean and variance; too few values for the correction have a variance of 0."""
    if not kept:
        return math.nan, math.nan
    mean = math.fsum(kept) / len(kept)
    if len(kept) <= ddof:
        return mean, 0.0
    return mean, math.fsum((x - mean) ** 2 for x in kept) / (len(kept) - ddof)


def inverse_std(variance: float, traits: Traits) -> float:
    """Return what a deviation is multiplied by, with eps where it is declared to be."""
    eps = traits.eps
    std = math.sqrt(variance)
    divisor = {
        "variance": math.sqrt(variance + eps),
        "std": std + eps,
        "clamp_variance": math.sqrt(max(variance, eps)),
        "clamp_std": max(std, eps),
    }[traits.eps_place]
    return 1.0 / divisor if divisor else math.inf


def affine(value: float, mean: float, scale: float, traits: Traits) -> float:
    """Whiten one value with given statistics."""
    if traits.shift_mean is True:
        return (value - mean) * scale
    if traits.shift_mean is False:
        return value * scale
    return (value - mean) * scale + mean


def masked_out_value(value: float, whitened: float, traits: Traits) -> float:
    """Return what is declared to come out at a masked-out token (whitened for ``"any"``)."""
    return {"zero": 0.0, "unchanged": value}.get(traits.masked_out, whitened)


def pools(batch: Batch, traits: Traits) -> list[list[int]]:
    """Return the sets of samples whose tokens share statistics."""
    if traits.scope == "group":
        return [list(range(len(batch.samples)))]
    return [batch.of_owner(owner)[0] for owner in sorted(set(batch.owners))]


def whiten(batch: Batch, traits: Traits, ddof: int) -> list[list[float]]:
    """Whiten a batch; returns, for each sample, one value for each response token."""
    out: list[list[float]] = [[] for _ in batch.samples]
    values = batch.values
    for pool in pools(batch, traits):
        kept = [v for i in pool for v, m in zip(values[i], batch.samples[i].mask, strict=True) if m]
        mean, variance = mean_and_variance(kept, ddof)
        if not kept:
            for i in pool:
                out[i] = [math.nan] * len(values[i])
            continue
        scale = inverse_std(variance, traits)
        for i in pool:
            for v, m in zip(values[i], batch.samples[i].mask, strict=True):
                whitened = affine(v, mean, scale, traits)
                out[i].append(whitened if m else masked_out_value(v, whitened, traits))
    return out
