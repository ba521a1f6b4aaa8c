"""Worlds that stay up from one check to the next, so that a thousand checks cost a minute less."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class WorldPool:
    """A world factory for the suites over one that keeps its worlds, such as ``module_world``.

    Leaving a borrowed world does not close it; whoever made ``make`` closes them all.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, **axes: int) -> AbstractContextManager[Any]:
        """Borrow the live world of this shape."""
        return nullcontext(self._make(**axes))
