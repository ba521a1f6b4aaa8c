"""Whether distributed PyTorch code uses its collectives correctly; if not, which rank and line.

The names below are the public face. They load on first use: importing this package imports
neither torch nor pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness._errors import WorldError, WorldWarning
    from harness.layout import Layout, Rank, factorizations
    from harness.record._labels import label
    from harness.record._values import expect, expect_same, unchanged
    from harness.verdict import Finding
    from harness.world import World

__all__ = [
    "Finding",
    "Layout",
    "Rank",
    "World",
    "WorldError",
    "WorldWarning",
    "expect",
    "expect_same",
    "factorizations",
    "label",
    "unchanged",
]

_HOMES = {
    "Finding": "harness.verdict",
    "Layout": "harness.layout",
    "Rank": "harness.layout",
    "World": "harness.world",
    "WorldError": "harness._errors",
    "WorldWarning": "harness._errors",
    "expect": "harness.record._values",
    "expect_same": "harness.record._values",
    "factorizations": "harness.layout",
    "label": "harness.record._labels",
    "unchanged": "harness.record._values",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
