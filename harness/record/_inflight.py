"""Watches the buffers of async calls that user code made, from the call until its wait.

Torch lets a program touch a tensor that a collective is still writing; nothing tells. While such
a call is under way, and only then, a dispatch mode in that thread looks at each operation's
tensors. What it cannot see (another thread, ``.numpy()``) the version counters show at the wait.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

# The tensors that these operations are handed as inputs are overwritten in place.
IN_PLACE = frozenset({"all_reduce", "all_reduce_coalesced", "broadcast", "reduce"})

# These write memory behind torch's back; the others copy results in, which counts as a write.
_UNCOUNTED = frozenset({"all_reduce", "broadcast", "reduce", "recv"})

# These take only the shape of what they are handed.
_BLIND = frozenset(
    f"aten::{name}"
    for name in (
        "empty_like",
        "zeros_like",
        "ones_like",
        "full_like",
        "rand_like",
        "randn_like",
        "new_empty",
        "new_empty_strided",
        "new_zeros",
        "new_ones",
        "new_full",
    )
)

_IGNORED = ("c10d::", "_c10d_functional::", "prim::", "profiler::", "symm_mem::")

Touch = Callable[[int, str, str], None]


class _Buffer:
    """A tensor of a call under way."""

    __slots__ = ("end", "number", "size", "start", "tensor", "version", "written")

    def __init__(self, number: int, tensor: torch.Tensor, written: bool, counted: bool) -> None:
        self.number = number
        self.tensor = weakref.ref(tensor)
        self.start, self.end = span(tensor)
        self.size = tensor.untyped_storage().nbytes()
        # A view shares its counter with other views, whose writes may be elsewhere.
        unknown = counted or tensor.is_inference() or tensor._is_view()
        self.version = -1 if unknown else tensor._version
        self.written = written


class InFlight:
    """The buffers of one rank's async calls, and the modes that watch them."""

    def __init__(self, touched: Touch) -> None:
        self._touched = touched
        self._buffers: dict[int, list[_Buffer]] = {}
        self._local = threading.local()

    def begin(
        self, number: int, op: str, reads: list[torch.Tensor], writes: list[torch.Tensor]
    ) -> None:
        """A call has been issued whose work user code holds."""
        counted = op not in _UNCOUNTED
        self._buffers[number] = [
            *(_Buffer(number, t, False, False) for t in reads),
            *(_Buffer(number, t, True, counted) for t in writes),
        ]
        if getattr(self._local, "mode", None) is None:
            mode = _Mode(self)
            mode.__enter__()
            self._local.mode = mode

    def end(self, number: int) -> None:
        """The wait for the call begins: compare, and look away when it was the last."""
        for buffer in self._buffers.pop(number, ()):
            tensor = buffer.tensor()
            if tensor is None:
                continue
            if tensor.untyped_storage().nbytes() != buffer.size:
                self._touched(number, "resized", "")
                return
            if buffer.version >= 0 and tensor._version != buffer.version:
                self._touched(number, "written", "")
                return
        if not self._buffers:
            self._leave()

    def __len__(self) -> int:
        return len(self._buffers)

    def clear(self) -> None:
        """Forget all calls."""
        self._buffers.clear()
        self._leave()

    def _leave(self) -> None:
        mode: Any = getattr(self._local, "mode", None)
        # Another mode that user code has entered since must be left first.
        current: Any = _get_current_dispatch_mode()
        if mode is not None and current is mode:
            self._local.mode = None
            mode.__exit__(None, None, None)

    def look(self, func: Any, args: Any, kwargs: Any) -> None:
        """One operation runs: does it touch a buffer under way?"""
        if not self._buffers:
            return
        name: str = func._schema.name
        if name in _BLIND or func.is_view or name.startswith(_IGNORED):
            return
        for argument, value in zip(func._schema.arguments, args, strict=False):
            self._look_at(name, argument, value)
        for argument in func._schema.arguments:
            if argument.name in kwargs:
                self._look_at(name, argument, kwargs[argument.name])

    def _look_at(self, name: str, argument: Any, value: Any) -> None:
        tensors = value if isinstance(value, (list, tuple)) else (value,)
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
                continue
            writes = argument.alias_info is not None and argument.alias_info.is_write
            try:
                start, end = span(tensor)
            except RuntimeError:
                continue  # a tensor without storage of its own, as functorch makes
            for number, buffers in list(self._buffers.items()):
                for buffer in buffers:
                    if (writes or buffer.written) and start < buffer.end and buffer.start < end:
                        how = "read"
                        if writes:
                            resizes = name in ("aten::resize_", "aten::set_")
                            how = "resized" if resizes else "written"
                        self._touched(number, how, name.removeprefix("aten::"))
                        self._buffers[number] = []  # one finding for a call is enough
                        break


_Base: Any = TorchDispatchMode  # untyped in torch


class _Mode(_Base):  # type: ignore[misc]
    def __init__(self, inflight: InFlight) -> None:
        super().__init__()
        self._inflight = inflight

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch wraps the method below, which imports all of TorchDynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._inflight.look(func, args, kwargs)
        return func(*args, **kwargs)


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of the first byte of a tensor and of the one after its last."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()
