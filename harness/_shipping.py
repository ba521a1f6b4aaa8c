"""Sending functions to ranks: test code by value, everything installed by reference."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import cloudpickle

from harness.launch._pickling import dumps


@contextlib.contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    registered = []
    already = cloudpickle.list_registry_pickle_by_value()
    for module in modules:
        if module.__name__ not in already:
            with contextlib.suppress(ValueError):
                cloudpickle.register_pickle_by_value(module)
                registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def pack(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    modules: list[ModuleType],
) -> bytes:
    """The call as bytes. Raises TypeError naming what cannot be sent and what to do."""
    if not callable(function):
        raise TypeError(
            f"World.run takes a function that runs on every rank as fn(rank, …), "
            f"not a {type(function).__name__}"
        )
    with _by_value(modules):
        try:
            return dumps((function, args, kwargs))
        except Exception as error:
            raise TypeError(_culprit(function, args, kwargs, error)) from error


def _culprit(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> str:
    name = getattr(function, "__qualname__", repr(function))
    what = f"the function {name} (what it closes over, or a global that it uses)"
    named = [(f"argument {i}", a) for i, a in enumerate(args, 1)]
    for label, value in [*named, *((f"argument {k!r}", v) for k, v in kwargs.items())]:
        try:
            dumps(value)
        except Exception:
            what = f"{label} of {name}, a {type(value).__name__},"
            break
    return (
        f"{what} cannot be sent to the ranks: {type(error).__name__}: {error}. Ranks are other "
        "processes: pass plain values and tensors, and make files, locks, sockets, fixtures or "
        "process groups inside the function."
    )


def unpack(data: bytes) -> Any:
    """A rank's result or exception."""
    return pickle.loads(data)
