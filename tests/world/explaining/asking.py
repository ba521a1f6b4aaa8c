"""What the second run says of a function that fails on a world."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from harness import World, WorldError
from harness.explain import Divergence, Explanation


def explanation(
    function: Callable[..., Any], *args: Any, explain: str = "always", **options: Any
) -> Explanation | None:
    """What is said of the fault of ``function`` on two ranks."""
    with (
        pytest.raises(WorldError) as caught,
        World(**{"dp": 2, "explain": explain, **options}) as world,
    ):
        world.run(function, *args)
    assert caught.value.run is not None
    return caught.value.run.explanation


def divergence(function: Callable[..., Any], *args: Any, **options: Any) -> Divergence:
    """The place that is named."""
    found = explanation(function, *args, **options)
    assert found is not None
    assert found.divergence is not None, found.reason
    return found.divergence


def line(function: Callable[..., Any], text: str) -> int:
    """The number of the line of ``function`` that holds ``text``."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, each in enumerate(lines) if text in each)
