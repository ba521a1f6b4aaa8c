"""Questions to the arguments of a call: which tensors, which member, real or only traced."""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch
import torch.distributed.distributed_c10d as torch_c10d

from harness.record._operations import Reader

_FRAMES = 12
"""At most so many frames lie between a kernel and the function of torch.distributed above it."""


def asked_async(frame: FrameType | None) -> bool | None:
    """Whether the function of torch.distributed above ``frame`` leaves its work to its caller.

    For a torch that does not tell it to kernels; None where the call is not that function's own.
    """
    for _ in range(_FRAMES):
        if frame is None:
            return None
        code = frame.f_code
        if code.co_filename == torch_c10d.__file__:
            known = "async_op" in code.co_varnames
            return bool(frame.f_locals["async_op"]) if known else None
        frame = frame.f_back
    return None


def member(ranks: tuple[int, ...], place: int) -> int:
    """The global rank at a place of the group; a place that is none goes on as it is to torch."""
    return ranks[place] if 0 <= place < len(ranks) else place


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without overlap, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def given_in(
    read: Reader, where: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """The dense tensors of one argument, however nested."""
    if where is None:
        return []
    value = read(where, args, kwargs)
    if isinstance(value, torch.Tensor):
        value = [value]
    flat: list[Any] = []
    for each in value:
        flat.extend(each if isinstance(each, (list, tuple)) else [each])
    return [t for t in flat if isinstance(t, torch.Tensor) and t.layout is torch.strided]


def is_phantom(read: Reader, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the call only traces shapes: fake or meta tensors move no data."""
    where = read.operation.inputs or read.operation.outputs
    if where is None:
        return False
    value = read(where, args, kwargs)
    if type(value) is list and value and type(value[0]) is torch.Tensor:
        return value[0].is_meta
    while isinstance(value, (list, tuple)):
        if not value:
            return False
        value = value[0]
    return (
        not isinstance(value, torch.Tensor)
        or value.device.type == "meta"
        or (type(value).__name__ in ("FakeTensor", "FunctionalTensor"))
    )
