"""Laws that a distributed function must keep, ready to be run against yours.

``whitening`` and ``kl_aliasing`` are the suites; ``zigzag_slices`` and ``round_robin_shard`` say
which rank holds which token and which sample. Nothing here imports torch: only the code that the
suites run inside a rank does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from harness.suites._placement import round_robin_shard, zigzag_slices

if TYPE_CHECKING:
    from types import ModuleType

    from harness.suites import kl_aliasing, whitening

__all__ = ["kl_aliasing", "round_robin_shard", "whitening", "zigzag_slices"]


def __getattr__(name: str) -> ModuleType:
    """Import a suite when it is first named, so that the helpers above cost nothing."""
    if name in ("kl_aliasing", "whitening"):
        return importlib.import_module(f"harness.suites.{name}")
    raise AttributeError(f"module 'harness.suites' has no attribute {name!r}")
