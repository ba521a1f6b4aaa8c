"""Explanations: why ranks diverged, from a second run with the user's code traced."""

from harness.explain._explanation import Divergence, Explanation, Way

__all__ = ["Divergence", "Explanation", "Way"]
