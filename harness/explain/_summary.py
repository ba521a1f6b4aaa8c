"""Values as short text: a number as it is, a tensor by dtype, shape and a few figures.

Runs in a rank. Shows nothing that would run the user's code, such as a ``__repr__``.
"""

from __future__ import annotations

import collections
import enum
import itertools
import types
from collections.abc import Iterable
from typing import Any

import torch

from harness.explain._evaluate import LARGEST, is_tensor
from harness.explain._known import MAPPINGS

LONGEST = 80
FEW = 6

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def summary(value: Any) -> str | None:
    """The text; None for what says nothing: modules, functions, classes."""
    if isinstance(value, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)):
        return None
    if isinstance(value, (types.MethodType, types.MethodWrapperType)):
        return None
    return _cut(_text(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _text(value: Any, depth: int = 0) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value) if not isinstance(value, (str, bytes)) else repr(value[:LONGEST])
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, bool | int | float | str):
        base = next(k for k in (bool, int, float, str) if isinstance(value, k))
        return base.__repr__(value)
    if isinstance(value, (torch.dtype, torch.device, range, slice, torch.Size)):
        return repr(tuple(value)) if isinstance(value, torch.Size) else repr(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if kind in (list, tuple, set, frozenset, collections.deque, *MAPPINGS, *_VIEWS):
        return _container(value, depth)
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        shape = getattr(value, "shape", ())
        return f"{value.dtype}[{', '.join(map(str, shape))}]" if shape else str(value)
    return f"{kind.__name__} object"


def _container(value: Any, depth: int) -> str:
    names = {"dict_keys": "keys", "dict_values": "values", "dict_items": "items"}
    name = names.get(type(value).__name__, type(value).__name__)
    if not len(value):
        return f"empty {name}"
    if depth:
        return f"{name} of {len(value)}"
    if isinstance(value, (dict, type({}.items()))):
        keys: Iterable[Any] = value if isinstance(value, dict) else map(_first, value)
        parts = [_key(key) for key in itertools.islice(keys, FEW)]
    else:
        parts = [_text(each, depth + 1) for each in itertools.islice(iter(value), FEW)]
    more = ", ..." if len(value) > FEW else ""
    return f"{name} of {len(value)}: {', '.join(parts)}{more}"


def _first(item: tuple[Any, Any]) -> Any:
    return item[0]


def _key(key: Any) -> str:
    return printable(key) if type(key) is str else _text(key, 1)


def printable(text: str) -> str:
    """Text without line breaks and control characters."""
    return text if text.isprintable() else repr(text)[1:-1]


def _tensor(value: torch.Tensor) -> str:
    shape = ", ".join(map(str, value.shape))
    head = f"{str(value.dtype).removeprefix('torch.')}[{shape}]"
    if not is_tensor(value):
        return f"{type(value).__name__} {head}"
    if value.device.type != "cpu" or value.layout is not torch.strided:
        return f"{head} on {value.device.type}" if value.device.type != "cpu" else head
    count = value.numel()
    if not 0 < count <= LARGEST:
        return head
    with torch.no_grad():
        return f"{head} {_figures(value.detach(), count)}".rstrip()


def _figures(value: torch.Tensor, count: int) -> str:
    if count <= FEW:
        return " ".join(_number(each) for each in value.reshape(-1).tolist())
    if value.dtype is torch.bool:
        return f"{int(value.sum())} true"
    if value.is_complex():
        return ""
    first = value.reshape(-1)[0]
    if bool((value == first).all()):
        return f"all {_number(first.item())}"
    if value.is_floating_point():
        value = value.to(torch.float64)
        strange = int((~torch.isfinite(value)).sum())
        if strange:
            return f"{strange} not finite"
        mean = f", mean {_number(value.mean().item())}"
    else:
        mean = ""
    return f"{_number(value.min().item())} to {_number(value.max().item())}{mean}"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
