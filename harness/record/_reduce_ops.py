"""The reduce op of a call. A newer torch tells it to the kernel; before, only who asks for it knows.

There the boxed op cannot be read, so what Python passes to a method of the process group, or to a
functional collective, is remembered for the kernel below it. Calls that torch makes from C++ for
itself (DDP's reducer) pass no op, and reduce by SUM.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

REDUCE_OPS = {
    int(getattr(c10d.ReduceOp.RedOpType, name)): name
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
}

METHODS = tuple(name for name in vars(c10d.ProcessGroup) if "reduce" in name)
"""The methods of a process group that reduce."""


def told() -> bool:
    """Whether this torch lets a kernel read the op."""
    try:
        return bool(torch.classes.c10d.ReduceOp()._has_method("op"))
    except (AttributeError, RuntimeError):
        return False  # no such class, so no such argument either


def functional() -> list[Any]:
    """The functional collectives that reduce; their second argument is the op's name in small letters."""
    found = []
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        if space == "_c10d_functional" and "reduce" in name and "." not in name:
            found.append(getattr(torch.ops._c10d_functional, name).default)
    return found


class ReduceOps:
    """Names the op of a call, by ``told`` itself or by what was asked for in this thread."""

    def __init__(self) -> None:
        self.told = told()
        self._asked = threading.local()

    def name(self, boxed: Any) -> str | None:
        """The op that a kernel was given as ``boxed``; None if it is one that torch has no name for."""
        if self.told:
            return REDUCE_OPS.get(boxed.op())
        return getattr(self._asked, "name", "SUM")

    def method(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Around a method of `ProcessGroup`: remember the op that it was given."""

        def reducing(*args: Any, **kwargs: Any) -> Any:
            with_op = next(filter(None, map(_op_in, (*args[1:], *kwargs.values()))), "SUM")
            return self._remembering(with_op, real, *args, **kwargs)

        return reducing

    def kernel(self, overload: Any, after: Any) -> Callable[..., Any]:
        """For a functional collective, above the real one: remember its op."""
        redispatch = overload.redispatch

        def reducing(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            return self._remembering(args[1].upper(), redispatch, keyset & after, *args, **kwargs)

        return reducing

    def _remembering(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = getattr(self._asked, "name", "SUM")
        self._asked.name = name
        try:
            return real(*args, **kwargs)
        finally:
            self._asked.name = before


def _op_in(value: Any) -> str | None:
    """The op that an argument is or holds."""
    value = getattr(value, "reduceOp", value)
    if isinstance(value, (c10d.ReduceOp, c10d.ReduceOp.RedOpType)):
        return REDUCE_OPS.get(hash(value))
    return None
