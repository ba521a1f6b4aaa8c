"""Classes, functions, methods and attributes that are known to run no code of the user's."""

from __future__ import annotations

import collections
import math
from typing import Any

import torch
import torch.distributed as dist

SCALARS = (type(None), bool, int, float, complex, str, bytes)
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
MAPPINGS: tuple[type, ...] = (
    *(dict, collections.OrderedDict, collections.defaultdict, collections.Counter),
)
CONTAINERS = (
    *(tuple, list, set, frozenset, range, torch.Size, collections.deque),
    *(MAPPINGS + VIEWS),
)

FUNCTIONS: frozenset[Any] = frozenset(
    {
        *(len, abs, min, max, sum, any, all, bool, int, float, sorted, isinstance, range, type),
        *(tuple, list, set, frozenset, enumerate, zip, reversed, callable, divmod, round),
        *(math.isnan, math.isinf, math.isfinite, math.ceil, math.floor),
        *(torch.is_tensor, torch.isnan, torch.isinf, torch.isfinite, torch.any, torch.all),
        *(torch.equal, torch.numel, torch.is_grad_enabled, torch.sum, torch.is_floating_point),
        *(dist.is_initialized, dist.is_available, dist.get_rank, dist.get_world_size),
    }
)
TENSOR_METHODS = frozenset(
    [
        "numel",
        "nelement",
        "size",
        "dim",
        "ndimension",
        "item",
        "any",
        "all",
        "sum",
        "isnan",
        "isinf",
        "isfinite",
        "max",
        "min",
        "mean",
        "norm",
        "is_contiguous",
        "is_floating_point",
        "count_nonzero",
        "tolist",
        "stride",
        "abs",
        "eq",
        "ne",
        "gt",
        "ge",
        "lt",
        "le",
        "bool",
        "int",
        "float",
        "element_size",
        "data_ptr",
    ]
)
TENSOR_ATTRIBUTES = frozenset(
    [
        "shape",
        "dtype",
        "ndim",
        "device",
        "requires_grad",
        "is_leaf",
        "grad",
        "layout",
        "data",
        "nbytes",
        "itemsize",
        "T",
    ]
)
METHODS: dict[type, frozenset[str]] = {
    **dict.fromkeys(MAPPINGS, frozenset(["get", "keys", "values", "items"])),
    str: frozenset(
        ["startswith", "endswith", "lower", "upper", "strip", "split", "isdigit", "find", "count"]
    ),
    list: frozenset(["index", "count"]),
    tuple: frozenset(["index", "count"]),
    set: frozenset(["issubset", "issuperset", "isdisjoint", "union", "intersection", "difference"]),
    frozenset: frozenset(
        ["issubset", "issuperset", "isdisjoint", "union", "intersection", "difference"]
    ),
}
