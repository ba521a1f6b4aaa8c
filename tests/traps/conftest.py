"""Running somebody else's correct program, recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from harness import World, WorldWarning

Silent = Callable[..., list[Any]]

ALLOWED: dict[str, str] = {}
"""Warnings that a program gives with good reason: a piece of their text, and the reason."""


@pytest.fixture
def silent() -> Silent:
    """Runs a function in a world; a failing finding raises, an unexpected warning fails."""

    def run(function: Callable[..., Any], *args: Any, **options: Any) -> list[Any]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with World(**{"timeout": 60, **options}) as world:
                results = world.run(function, *args)
        said = [str(w.message) for w in caught if isinstance(w.message, WorldWarning)]
        unexpected = [text for text in said if not any(part in text for part in ALLOWED)]
        assert [] == unexpected
        return results

    return run
