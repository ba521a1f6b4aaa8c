"""Labels that user code puts around calls, to tell apart values that share a line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_label: ContextVar[str | None] = ContextVar("label", default=None)


def current() -> str | None:
    """The label around the calling code, or None."""
    return _label.get()


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """Calls made within are labelled ``name``: ranks that meet under two labels are a fault."""
    if not isinstance(name, str):
        raise TypeError(f"label: a text, not {name!r}")
    token = _label.set(name)
    try:
        yield
    finally:
        _label.reset(token)
