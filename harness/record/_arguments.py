"""Questions to the arguments of a call: which tensors, which member, real or only traced."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from harness.record._operations import Reader

REDUCE_OPS = {
    int(getattr(c10d.ReduceOp.RedOpType, name)): name
    for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
}


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
