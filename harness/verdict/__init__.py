"""The verdict: pure functions from records to findings; no torch, no processes."""

from harness.verdict._findings import Finding, GroupRef, Side
from harness.verdict._judge import Judge

__all__ = ["Finding", "GroupRef", "Judge", "Side"]
