"""How long a world may take: its own deadline, and what a pytest-timeout leaves of it."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from harness import _settings

if TYPE_CHECKING:
    import pytest

LEAST_BUDGET = 0.5
"""Seconds that a world must have left to be started at all."""


def checked(timeout: float | None) -> float | None:
    """The argument of a world. Raises TypeError or ValueError if it is no number of seconds."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout: seconds as a number, not {timeout!r}")
    if not 0 < timeout < float("inf"):
        raise ValueError(f"timeout: a number of seconds above 0, not {timeout!r}; say timeout=30")
    return float(timeout)


def of_run(timeout: float | None) -> tuple[float, float, str]:
    """The seconds a run may take, when it must have ended, and why it may be cut short.

    Raises RuntimeError where the pytest-timeout leaves too little.
    """
    asked = timeout if timeout is not None else _settings.current.timeout
    bound = _settings.current.bound()
    if bound is None:
        return asked, float("inf"), ""
    left, whole = bound
    margin = _margin(whole)
    seconds = left - margin
    limit = time.monotonic() + seconds
    if asked <= seconds:
        return asked, limit, ""
    if seconds < LEAST_BUDGET:
        raise RuntimeError(
            f"pytest-timeout ({whole:g} s) leaves this test {max(left, 0):.1f} s, too little "
            f"for a world, which must end {margin:g} s before it to say what happened: "
            "raise the timeout of this test"
        )
    return (
        seconds,
        limit,
        (
            f"note: the world's deadline of {asked:g} s was cut to {seconds:.1f} s, to end before "
            f"the pytest-timeout of this test ({whole:g} s)"
        ),
    )


def of_test(item: pytest.Item) -> float | None:
    """The pytest-timeout of a test: its marker, else the option, the variable, the ini file."""
    marker = item.get_closest_marker("timeout")
    candidates: list[Any] = []
    if marker is not None:
        candidates.append(marker.args[0] if marker.args else marker.kwargs.get("timeout"))
    candidates.append(item.config.getoption("timeout", None))
    candidates.append(os.environ.get("PYTEST_TIMEOUT"))
    with contextlib.suppress(ValueError, KeyError):
        candidates.append(item.config.getini("timeout"))
    for value in candidates:
        if value is not None and value != "":
            try:
                seconds = float(value)
            except (TypeError, ValueError):
                continue
            return seconds if seconds > 0 else None
    return None


def remaining() -> float:
    """Seconds that this test may still take."""
    bound = _settings.current.bound()
    return float("inf") if bound is None else bound[0] - _margin(bound[1])


def patience() -> float:
    """Seconds that this test can wait for other processes to end their worlds."""
    bound = _settings.current.bound()
    return float("inf") if bound is None else max(0.0, bound[0] / 2)


def _margin(whole: float) -> float:
    """The seconds before its pytest-timeout in which a test must be over, to say what happened."""
    return max(0.5, min(5.0, 0.1 * whole))
