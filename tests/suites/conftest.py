"""Worlds that a module's tests share."""

from __future__ import annotations

from typing import Any

import pytest

from .pool import WorldPool


@pytest.fixture(scope="module")
def pool(module_world: Any) -> WorldPool:
    """A world factory whose worlds stay up until the module's last test."""
    return WorldPool(module_world)
