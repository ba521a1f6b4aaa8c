"""KL estimators from their definitions, in float64 and without torch.

With d = log π(x) − log π_ref(x) for a sampled token (Schulman, "Approximating KL divergence"):
k1 = d; k2 = d² / 2; k3 = exp(−d) − 1 + d, also called the low-variance estimator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

ESTIMATES: dict[str, Callable[[float], float]] = {
    "k1": lambda d: d,
    "k2": lambda d: d * d / 2.0,
    "k3": lambda d: math.expm1(-d) + d,
    # Often clamped to ±10; the laws' log-probabilities stay far below that.
    "low_var_kl": lambda d: math.expm1(-d) + d,
}


def kl(kl_type: str, log_probs: Sequence[float], ref_log_probs: Sequence[float]) -> list[float]:
    """Return the per-token KL estimate of one sample."""
    estimate = ESTIMATES[kl_type]
    return [estimate(p - q) for p, q in zip(log_probs, ref_log_probs, strict=True)]
