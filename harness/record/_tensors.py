"""Tensors as they are sent: what a call was given, and which memory it is."""

from __future__ import annotations

from typing import Any

import torch

from harness.record._arguments import is_dense
from harness.record._inflight import span
from harness.record._storages import Storages

_MANY_SHAPES = 4096


class Tensors:
    """Describes the tensors of this rank; the fields are those of `TensorInfo`."""

    def __init__(self) -> None:
        self._dtypes: dict[torch.dtype, str] = {}
        self._shapes: dict[torch.Size, tuple[int, ...]] = {}
        self._storages = Storages()

    def described(self, value: Any, nested: bool) -> tuple[Any, ...]:
        if isinstance(value, torch.Tensor):
            return (self.one(value),)
        if nested:
            return tuple(self.one(t) for inner in value for t in inner)
        return tuple(self.one(t) for t in value)

    def one(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        dtype = tensor.dtype
        name = self._dtypes.get(dtype)
        if name is None:
            name = self._dtypes[dtype] = str(dtype).removeprefix("torch.")
        size = tensor.shape
        shape = self._shapes.get(size)
        if shape is None:
            if len(self._shapes) > _MANY_SHAPES:
                self._shapes.clear()
            shape = self._shapes[size] = tuple(size)
        if tensor.layout is not torch.strided:
            return (name, shape)
        version = 0 if tensor.is_inference() else tensor._version
        memory = tensor.untyped_storage()
        contiguous = dense = tensor.is_contiguous()
        if contiguous:
            start, length = tensor.data_ptr(), tensor.nbytes
        else:
            start, end = span(tensor)
            length, dense = end - start, is_dense(tensor)
        serial = self._storages.number(memory)
        return (name, shape, contiguous, memory.data_ptr(), version, start, length, dense, serial)
