"""Pickling of functions and results: cloudpickle, with the file names of code kept.

cloudpickle gives code that travels by value the name ``<dynamic-code>``; a report that says which
line was at fault needs the real one.
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

import cloudpickle

_reduce: Callable[[CodeType], Any] = cloudpickle.Pickler.dispatch_table[CodeType]


def _named(rebuild: Callable[..., CodeType], args: tuple[Any, ...], file: str) -> CodeType:
    return rebuild(*args).replace(co_filename=file)


def _reduce_code(code: CodeType) -> Any:
    rebuild, args = _reduce(code)[:2]
    return _named, (rebuild, args, code.co_filename)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap(
        {CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table
    )


def dumps(value: Any) -> bytes:
    """Pickle ``value``, functions and classes of test code by value."""
    with io.BytesIO() as stream:
        _Pickler(stream).dump(value)
        return stream.getvalue()
