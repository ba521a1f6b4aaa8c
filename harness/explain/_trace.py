"""What a traced rank writes: events in shared memory, read after the rank has been killed.

An event is 8 bytes: a kind (4 bits), a frame (28 bits), a number (32 bits). Nothing is buffered, so
that all of it is there whatever became of the rank. Values and names are notes, in a second part;
an event refers to them by their place in it.
"""

from __future__ import annotations

import marshal
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

EVENTS = 1 << 20
"""At most so many events are kept of a rank, 8 bytes each; memory is taken as they come."""

ALL_EVENTS = 1 << 25
NOTES = 8 << 20
"""Bytes for values, of a rank."""

LINE, ENTER, PARENT, LEAVE, RESUME, RAISED, CALL, VALUES, RETURNED, FULL = range(1, 11)
"""``LINE``: a line begins. ``ENTER``: the code of a note begins; ``PARENT``: the frame it was called
from. ``LEAVE``: number 1 if by an exception. ``RAISED``: a note on an exception that passes through
the frame. ``CALL``: the rank begins the collective of that number. ``VALUES``: a note of expressions
and texts. ``RETURNED``: a note on what a function that is not followed returned. ``FULL``: there was
no place for more."""

FRAMES = 1 << 28
_LENGTH = struct.Struct("<I")


Capture = tuple[tuple[str, ...], tuple[int, int]]
"""Expressions to evaluate as a line begins, unless the line before it was in this range."""

Captures = dict[int, Capture]


@dataclass(frozen=True)
class TracePlan:
    """What a rank is told: where to write, which of its runs to follow, and which functions.

    ``functions`` are by file and qualified name; the values are what to evaluate at which line.
    """

    path: str
    events: int
    run: int
    functions: dict[tuple[str, str], Captures]

    @property
    def size(self) -> int:
        """Bytes that a rank writes at most."""
        return 8 * self.events + NOTES


Event = tuple[int, int, int, Any]
"""The kind, the frame, the number, and the note, already read. There are too many for a class."""


class TraceWriter:
    """The rank's end, over its part of the shared file."""

    def __init__(self, path: str, rank: int, events: int) -> None:
        size = 8 * events + NOTES
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), size, offset=rank * size)
        view = memoryview(self._memory)
        self._events = view[: 8 * events].cast("Q")
        self._notes = view[8 * events :]
        self._place = 0
        self._free = 0
        self._most = events - 1

    def add(self, kind: int, frame: int, number: int) -> bool:
        """Write an event; False when there was place for no more."""
        place = self._place
        if place >= self._most or frame >= FRAMES:
            self._events[self._most] = FULL << 60
            return False
        self._events[place] = kind << 60 | frame << 32 | number
        self._place = place + 1
        return True

    def note(self, value: Any) -> int | None:
        """Write a note; its place, None where there is no room."""
        data = marshal.dumps(value)
        start, end = self._free, self._free + _LENGTH.size + len(data)
        if end > len(self._notes):
            return None
        self._notes[start:end] = _LENGTH.pack(len(data)) + data
        self._free = end
        return start


def read(memory: mmap.mmap, rank: int, events: int) -> Iterator[Event]:
    """The events of a rank, in order."""
    size = 8 * events + NOTES
    start = rank * size
    whole = memoryview(memory)
    try:
        table = whole[start : start + 8 * events].cast("Q")
        try:
            yield from _events(table, memory, start + 8 * events)
        finally:
            table.release()
    finally:
        whole.release()


def _events(table: memoryview, memory: mmap.mmap, notes: int) -> Iterator[Event]:
    with_note = (ENTER, RAISED, VALUES, RETURNED)
    for value in table:
        if not value:
            break
        kind, frame, number = value >> 60, value >> 32 & FRAMES - 1, value & 0xFFFFFFFF
        if kind == LINE:
            yield kind, frame, number, None
            continue
        note = None
        if kind in with_note:
            at = notes + number
            (length,) = _LENGTH.unpack_from(memory, at)
            note = marshal.loads(memory[at + _LENGTH.size : at + _LENGTH.size + length])
        yield kind, frame, number, note
    if table[len(table) - 1]:
        yield FULL, 0, 0, None
