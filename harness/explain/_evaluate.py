"""Expressions evaluated once more in a running frame, as long as that changes nothing.

Runs in a rank. Names, attributes, items, comparisons and arithmetic of plain values and tensors, and
calls of functions that are known to have no effect. Everything else raises `Unsafe`: user code that
an expression would run (a property, an operator of a class, a function) is never run twice.
"""

from __future__ import annotations

import abc
import ast
import builtins
import enum
import functools
import operator
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from harness.explain._known import (
    CONTAINERS,
    FUNCTIONS,
    MAPPINGS,
    METHODS,
    SCALARS,
    TENSOR_ATTRIBUTES,
    TENSOR_METHODS,
)

LARGEST = 1 << 22
"""Elements of a tensor that is computed with; for more, an expression costs too much time."""

MOST_ELEMENTS = 1000


class Unsafe(Exception):
    """Evaluating this might run the user's code, or cannot be done at all."""


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}

_STUB = "harness.mpu."


def evaluate(text: str, names: Mapping[str, Any], everywhere: Mapping[str, Any]) -> Any:
    """The value of an expression, given a frame's own and global names. Raises `Unsafe`."""
    try:
        return _value(_parsed(text), names, everywhere)
    except Unsafe:
        raise
    except Exception as error:
        raise Unsafe(str(error)) from error


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, own: Mapping[str, Any], everywhere: Mapping[str, Any]) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, own, everywhere)

    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, own, everywhere)
    if isinstance(node, ast.Attribute):
        return _attribute(of(node.value), node.attr)
    if isinstance(node, ast.Call):
        return _call(node, of)
    if isinstance(node, ast.Subscript):
        return _item(of(node.value), node.slice, of)
    if isinstance(node, ast.BoolOp):
        return _logical(node, of)
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_plain(of(node.operand)))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_number(of(node.left)), _number(of(node.right)))
    if isinstance(node, ast.Compare):
        return _compared(node, of)
    if isinstance(node, ast.IfExp):
        return of(node.body) if _plain(of(node.test)) else of(node.orelse)
    if isinstance(node, ast.Tuple | ast.List):
        return [of(part) for part in node.elts]
    raise Unsafe(type(node).__name__)


def _named(name: str, own: Mapping[str, Any], everywhere: Mapping[str, Any]) -> Any:
    for names in (own, everywhere, vars(builtins)):
        if name in names:
            return names[name]
    raise Unsafe(name)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch's own class, on which torch's operations alone run."""
    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _computable(value: Any) -> bool:
    return (
        is_tensor(value)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and value.numel() <= LARGEST
    )


def _plain(value: Any) -> Any:
    """A value whose truth runs no code of the user's."""
    if isinstance(value, SCALARS) and _own_class(value):
        return value
    if type(value) in CONTAINERS or _computable(value) or _identical(value):
        return value
    raise Unsafe(type(value).__name__)


def _identical(value: Any) -> bool:
    """Whether it is always true, and equal to itself alone."""
    kind: Any = type(value)
    if isinstance(value, torch.Tensor):
        return False  # a DTensor's truth may take a collective
    if kind.__module__.split(".")[0] in ("torch", "numpy"):
        return not hasattr(kind, "__len__")
    hashes = kind.__hash__ in (object.__hash__, enum.Enum.__hash__)
    return (
        kind.__eq__ is object.__eq__
        and hashes
        and not (hasattr(kind, "__bool__") or hasattr(kind, "__len__"))
    )


def _own_class(value: Any) -> bool:
    """Whether it is of a built-in class, or the rank that a function is handed."""
    kind = type(value)
    return kind in SCALARS or kind.__module__ == "harness.layout"


def _number(value: Any) -> Any:
    if (isinstance(value, SCALARS) and _own_class(value)) or _computable(value):
        return value
    if type(value) in (set, frozenset, list, tuple):
        return value
    raise Unsafe(type(value).__name__)


def _attribute(value: Any, name: str) -> Any:
    """An attribute, unless getting it runs code: a property, ``__getattr__``."""
    if is_tensor(value):
        if name in TENSOR_ATTRIBUTES:
            return getattr(value, name)
        raise Unsafe(name)
    kind = type(value)
    if kind.__module__ == "harness.layout":
        return getattr(value, name)
    if kind.__getattribute__ not in _GETTERS:
        raise Unsafe(name)
    if isinstance(value, types.ModuleType):
        found = vars(value).get(name)
        if found is None:
            raise Unsafe(name)
        return found
    if isinstance(value, torch.nn.Module):
        return _of_module(value, name)
    for known in kind.__mro__:
        held = vars(known).get(name)
        if held is None:
            continue
        if isinstance(held, types.MemberDescriptorType):  # a slot
            return held.__get__(value)
        if hasattr(type(held), "__get__") and not isinstance(held, types.FunctionType):
            raise Unsafe(name)
        break
    instance = getattr(value, "__dict__", None) if not hasattr(kind, "__getattr__") else None
    if isinstance(instance, dict) and name in instance:
        return instance[name]
    for known in kind.__mro__:
        if name in vars(known) and not hasattr(type(vars(known)[name]), "__get__"):
            return vars(known)[name]
    raise Unsafe(name)


_GETTERS: tuple[Any, ...] = (
    object.__getattribute__,
    type.__getattribute__,
    types.ModuleType.__getattribute__,
)


def _of_module(module: torch.nn.Module, name: str) -> Any:
    for part in ("_parameters", "_buffers", "_modules"):
        if name in module.__dict__.get(part, ()):
            return module.__dict__[part][name]
    if name in module.__dict__:
        return module.__dict__[name]
    raise Unsafe(name)


def _item(value: Any, index: ast.expr, of: Callable[[ast.expr], Any]) -> Any:
    at: Any
    if isinstance(index, ast.Slice):
        parts = (index.lower, index.upper, index.step)
        at = slice(*(None if part is None else of(part) for part in parts))
    else:
        at = of(index)
    if type(value) in MAPPINGS and (_is_harmless(at) or _identical(at)):
        if at not in value:  # nor is it filled in
            raise Unsafe("a key that is not there")
        return value[at]
    if type(value) in (list, tuple, str, range, torch.Size) or _computable(value):
        return value[at]
    raise Unsafe(type(value).__name__)


def _logical(node: ast.BoolOp, of: Callable[[ast.expr], Any]) -> Any:
    value: Any = None
    for part in node.values:
        value = _plain(of(part))
        if bool(value) is isinstance(node.op, ast.Or):
            return value
    return value


def _compared(node: ast.Compare, of: Callable[[ast.expr], Any]) -> Any:
    left = of(node.left)
    result: Any = True
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = of(part)
        if not isinstance(op, (ast.Is, ast.IsNot)):
            by_identity = isinstance(op, (ast.Eq, ast.NotEq))
            for value in (left, right):
                if not (_is_harmless(value) or (by_identity and _identical(value))):
                    raise Unsafe(type(value).__name__)
        result = _COMPARE[type(op)](left, right)
        if len(node.ops) > 1 and not _plain(result):
            return result
        left = right
    return result


def _call(node: ast.Call, of: Callable[[ast.expr], Any]) -> Any:
    if any(isinstance(a, ast.Starred) for a in node.args) or len(node.keywords) > 4:
        raise Unsafe("a call with *arguments")
    if any(k.arg is None for k in node.keywords):
        raise Unsafe("a call with **arguments")

    def arguments() -> tuple[list[Any], dict[str, Any]]:
        given = [of(a) for a in node.args]
        named = {str(k.arg): of(k.value) for k in node.keywords}
        for value in (*given, *named.values()):
            if not (_is_harmless(value) or type(value) in (type, abc.ABCMeta)):
                raise Unsafe(type(value).__name__)
        return given, named

    if isinstance(node.func, ast.Attribute):
        receiver = of(node.func.value)
        name = node.func.attr
        if _computable(receiver) and name in TENSOR_METHODS:
            given, named = arguments()
            with torch.no_grad():
                return getattr(receiver, name)(*given, **named)
        if name in METHODS.get(type(receiver), ()):
            given, named = arguments()
            return getattr(receiver, name)(*given, **named)
    function = of(node.func)
    try:
        known = function in FUNCTIONS
    except TypeError:
        known = False
    if not known and not _is_query(function):
        raise Unsafe("a function that may do anything")
    if function is isinstance and len(node.args) == 2:
        return _is_instance(of(node.args[0]), of(node.args[1]))
    given, named = arguments()
    with torch.no_grad():
        return function(*given, **named)


def _is_instance(value: Any, classes: Any) -> bool:
    """By the class alone: what a metaclass or a ``__class__`` of the user's would say is not asked."""
    if not isinstance(classes, (tuple, list)):
        classes = [classes]
    if not all(type(c) is type or c.__module__.startswith("torch.") for c in classes):
        raise Unsafe("a class with a say in what is an instance of it")
    return any(known in type(value).__mro__ for known in classes)


def _is_harmless(value: Any) -> bool:
    """Whether functions and comparisons that are handed it run no code of the user's."""
    if isinstance(value, SCALARS):
        return _own_class(value)
    if type(value) in MAPPINGS:
        return _few(value) and all(map(_is_harmless, (*value.keys(), *value.values())))
    if type(value) in CONTAINERS:
        return _few(value) and (isinstance(value, range) or all(map(_is_harmless, value)))
    return is_tensor(value) or isinstance(value, (torch.dtype, torch.device, dist.ProcessGroup))


def _few(value: Any) -> bool:
    return len(value) <= MOST_ELEMENTS


def _is_query(function: Any) -> bool:
    """A function of the mpu stub that only tells something."""
    return (
        isinstance(function, types.FunctionType)
        and function.__module__.startswith(_STUB)
        and function.__name__.startswith(("get_", "is_"))
        and not function.__name__.endswith("_group")
    )
