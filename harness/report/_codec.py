"""Dataclasses to what JSON can hold, and back, by their type hints."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from harness.record import Frame, Record, Stack

TAG = "record"
"""The key that says which kind of record an object is."""


class Unreadable(ValueError):
    """Data that is not what it should be: the text names the place and what was expected."""


class Tables:
    """Frames and stacks, each held once; everything else refers to a stack by its number."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.stacks: list[list[int]] = []
        self._frame_numbers: dict[Frame, int] = {}
        self._stack_numbers: dict[Stack, int] = {}

    def number(self, stack: Stack) -> int:
        """The number of a stack, which is added where it is new."""
        found = self._stack_numbers.get(stack)
        if found is None:
            found = self._stack_numbers[stack] = len(self.stacks)
            self.stacks.append([self._frame(frame) for frame in stack])
        return found

    def _frame(self, frame: Frame) -> int:
        found = self._frame_numbers.get(frame)
        if found is None:
            found = self._frame_numbers[frame] = len(self.frames)
            self.frames.append(encoder(Frame)(frame, self))
        return found


Encode = Callable[[Any, Tables], Any]
Decode = Callable[[Any, "list[Stack]", str], Any]

_NAMES: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def options(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the hint itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


@functools.cache
def hints(kind: type) -> dict[str, Any]:
    """The fields of a dataclass with their types."""
    found = typing.get_type_hints(kind)
    return {field.name: found[field.name] for field in dataclasses.fields(kind)}


def default(field: dataclasses.Field[Any]) -> Any:
    """The default of a field; `dataclasses.MISSING` where it must be given."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


RECORDS: dict[str, type] = {kind.__name__: kind for kind in options(Record)}


@functools.cache
def encoder(hint: Any) -> Encode:
    """What turns a value of this type into plain data. Fields at their default are left out."""
    if hint == Stack:
        return lambda value, tables: tables.number(value)
    if hint == Record:
        return _encode_record
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _fields_encoder(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        kinds = [encoder(kind) for kind in inner if kind is not ...]
        if inner[-1] is ...:
            return lambda value, tables: [kinds[0](item, tables) for item in value]
        return lambda value, tables: [
            kind(item, tables) for kind, item in zip(kinds, value, strict=True)
        ]
    if origin is Mapping:
        return lambda value, tables: {str(key): item for key, item in value.items()}
    for kind in options(hint):
        if kind is not hint and kind is not types.NoneType:
            present = encoder(kind)
            return lambda value, tables: None if value is None else present(value, tables)
    return lambda value, tables: value


def _encode_record(value: Any, tables: Tables) -> dict[str, Any]:
    name = type(value).__name__
    return {TAG: name, **encoder(RECORDS[name])(value, tables)}


def _fields_encoder(kind: type) -> Encode:
    rows = [
        (field.name, encoder(hints(kind)[field.name]), default(field))
        for field in dataclasses.fields(kind)
    ]

    def encode(value: Any, tables: Tables) -> dict[str, Any]:
        made = {}
        for name, inner, usual in rows:
            item = getattr(value, name)
            if item != usual:
                made[name] = inner(item, tables)
        return made

    return encode


@functools.cache
def decoder(hint: Any) -> Decode:
    """What turns plain data into a value of this type. Raises `Unreadable`."""
    if hint == Stack:
        return _stack
    if hint == Record:
        return _record
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _fields_decoder(hint)
    origin = typing.get_origin(hint)
    if origin is tuple:
        return _tuple_decoder(typing.get_args(hint))
    if origin is Mapping:
        return _mapping_decoder(typing.get_args(hint))
    for kind in options(hint):
        if kind is not hint and kind is not types.NoneType:
            present = decoder(kind)
            return lambda data, stacks, at: None if data is None else present(data, stacks, at)
    return _plain_decoder(hint)


def _plain_decoder(kind: type) -> Decode:
    def decode(data: Any, stacks: list[Stack], at: str) -> Any:
        if kind is float and type(data) is int:
            return float(data)
        if type(data) is not kind:
            raise wrong(at, _NAMES[kind], data)
        return data

    return decode


def _stack(data: Any, stacks: list[Stack], at: str) -> Stack:
    if type(data) is not int or not 0 <= data < len(stacks):
        raise wrong(at, f"the number of one of the {len(stacks)} stacks", data)
    return stacks[data]


def _record(data: Any, stacks: list[Stack], at: str) -> Any:
    kind = data.get(TAG) if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in RECORDS:
        raise wrong(at, f'an object whose "{TAG}" is one of {", ".join(RECORDS)}', data)
    return decoder(RECORDS[kind])(data, stacks, at)


def _fields_decoder(kind: type) -> Decode:
    rows = [
        (field.name, decoder(hints(kind)[field.name]), default(field))
        for field in dataclasses.fields(kind)
    ]

    def decode(data: Any, stacks: list[Stack], at: str) -> Any:
        if not isinstance(data, dict):
            raise wrong(at, "an object", data)
        values = {}
        for name, inner, usual in rows:
            if name in data:
                values[name] = inner(data[name], stacks, f"{at}.{name}" if at else name)
            elif usual is dataclasses.MISSING:
                raise Unreadable(f"{at}: {name!r} is missing" if at else f"{name!r} is missing")
        return kind(**values)

    return decode


def _tuple_decoder(inner: tuple[Any, ...]) -> Decode:
    kinds = [decoder(kind) for kind in inner if kind is not ...]
    many = inner[-1] is ...

    def decode(data: Any, stacks: list[Stack], at: str) -> tuple[Any, ...]:
        if not isinstance(data, list) or not (many or len(data) == len(kinds)):
            raise wrong(at, "a list" if many else f"a list of {len(kinds)}", data)
        each = kinds * len(data) if many else kinds
        return tuple(
            kind(item, stacks, f"{at}[{number}]")
            for number, (kind, item) in enumerate(zip(each, data, strict=True))
        )

    return decode


def _mapping_decoder(inner: tuple[Any, ...]) -> Decode:
    key_kind, value = inner[0], decoder(inner[1])

    def decode(data: Any, stacks: list[Stack], at: str) -> dict[Any, Any]:
        if not isinstance(data, dict):
            raise wrong(at, "an object", data)
        try:
            return {key_kind(key): value(item, stacks, f"{at}.{key}") for key, item in data.items()}
        except Unreadable:
            raise
        except ValueError:
            raise wrong(at, "an object whose keys are whole numbers", data) from None

    return decode


def wrong(at: str, expected: str, data: Any) -> Unreadable:
    """The error for data that is something else."""
    shown = repr(data)
    return Unreadable(
        f"{at or 'the document'}: expected {expected}, not "
        f"{shown if len(shown) <= 60 else shown[:57] + '...'}"
    )
