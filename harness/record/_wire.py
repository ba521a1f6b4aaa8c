"""How records cross from a rank to the supervisor: length-prefixed marshal, stacks sent once."""

from __future__ import annotations

import linecache
import marshal
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from harness.record import _records as records
from harness.record._branches import branches
from harness.record._records import Frame, Record, Stack, TensorInfo

_LENGTH = struct.Struct("<I")

_FINISHED = struct.Struct("<IQId")
"""What most messages are: a length of 0, then the call, the thread and the time."""

_LATER = 4096

STACK = "stack"
CALL = "call"
FINISHED = "Finished"


class Channel:
    """The rank's end: sends tuples of plain values, from any thread, each whole.

    It is made before the rank is forked and opened in it; until then what is sent goes nowhere.
    """

    def __init__(self) -> None:
        self._sock: socket.socket | None = None
        # Re-entrant, for the end of a thread may be noticed (and sent) in the middle of a send.
        self._lock = threading.RLock()
        self._stacks: dict[Any, int] = {}
        self._later = bytearray()

    def open(self, sock: socket.socket) -> None:
        """Send over ``sock`` from now on, in this process alone."""
        self._sock = sock
        os.register_at_fork(after_in_child=self._close)

    def _close(self) -> None:
        # A child process that user code forks is not a rank: it must not write records.
        self._sock = None

    def send(self, *values: Any) -> None:
        """Send one message; blocks only while the supervisor reads."""
        data = marshal.dumps(values)
        with self._lock:
            self._write(_LENGTH.pack(len(data)) + data)

    def send_later(self, *values: Any) -> None:
        """Send one message together with the next: for what says nothing by itself."""
        data = marshal.dumps(values)
        with self._lock:
            self._later += _LENGTH.pack(len(data))
            self._later += data

    def finished_later(self, call: int, thread: int) -> None:
        """Send that a call has returned, together with the next message."""
        with self._lock:
            self._later += _FINISHED.pack(0, call, thread, time.monotonic())
            if len(self._later) > _LATER:
                self._write(b"")

    def _write(self, data: bytes) -> None:
        self._later += data
        later, self._later = self._later, bytearray()
        if self._sock is not None:
            self._sock.sendall(later)

    def send_with_stack(self, stack: Any, *values: Any, later: bool = False) -> None:
        """Send a message that ends with ``stack``; the stack itself crosses once only.

        With ``later`` it may go together with the next.
        """
        with self._lock:
            number = self._stacks.get(stack)
            if number is None:
                number = self._stacks[stack] = len(self._stacks)
                data = marshal.dumps((STACK, number, stack))
                self._later += _LENGTH.pack(len(data)) + data
            data = marshal.dumps((*values, number))
            self._later += _LENGTH.pack(len(data))
            self._later += data
            if not later or len(self._later) > _LATER:
                self._write(b"")


def unframe(buffer: bytearray) -> Iterator[tuple[Any, ...]]:
    """Take the whole messages off the front of ``buffer``; the rest stays for the next read."""
    start = 0
    try:
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length == 0:
                if len(buffer) - start < _FINISHED.size:
                    break
                _, call, thread, when = _FINISHED.unpack_from(buffer, start)
                start += _FINISHED.size
                yield FINISHED, call, thread, when
                continue
            end = start + _LENGTH.size + length
            if len(buffer) < end:
                break
            message = marshal.loads(memoryview(buffer)[start + _LENGTH.size : end])
            start = end
            yield message
    finally:
        del buffer[:start]


def frame(*values: Any) -> bytes:
    """One message as bytes, as `Channel.send` writes it."""
    data = marshal.dumps(values)
    return _LENGTH.pack(len(data)) + data


class Decoder:
    """The supervisor's end for one rank: messages in, records out."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._stacks: list[Stack] = []

    def record(self, message: tuple[Any, ...]) -> Record | None:
        """The record in a message; None for one that only carries a stack."""
        kind = message[0]
        if kind == STACK:
            self._stacks.append(tuple(_frame(*entry) for entry in message[2]))
            return None
        if kind == CALL:
            return self._call(message)
        if kind == FINISHED:
            return records.Finished(self._rank, *message[1:])
        values = list(message[1:])
        if kind in _STACK_AT:
            stack = self._stack(values.pop(), ())
            values.insert(_STACK_AT[kind], stack)
        made: Record = getattr(records, kind)(self._rank, *values)
        return made

    def _call(self, message: tuple[Any, ...]) -> Record:
        (_, call, thread, group, index, op, reduce_op, root, peer, tag) = message[:10]
        (inputs, outputs, in_splits, out_splits, async_op, when, from_python) = message[10:17]
        label, during, held, loops, number = message[17:]
        raised_at: Stack = ()
        if isinstance(during, tuple):
            during, place = during
            raised_at = (_frame(*place),)
        return records.Call(
            self._rank,
            call,
            thread,
            group,
            index,
            op,
            reduce_op,
            root,
            peer,
            tag,
            tuple([TensorInfo(*each) for each in inputs]),
            tuple([TensorInfo(*each) for each in outputs]),
            in_splits,
            out_splits,
            async_op,
            self._stack(number, loops),
            when,
            from_python,
            label,
            during,
            held,
            raised_at,
        )

    def _stack(self, number: int, loops: Any) -> Stack:
        stack = self._stacks[number]
        if not loops:
            return stack
        frames = list(stack)
        for position, values in loops:
            at = frames[position]
            # dataclasses.replace takes three times as long, and this runs for nearly each call.
            frames[position] = Frame(
                at.file, at.line, at.function, at.source, values, at.branch, True
            )
        return tuple(frames)


def _frame(file: str, line: int, function: str) -> Frame:
    source = linecache.getline(file, line).strip()
    return Frame(file, line, function, source, (), branches(file, line))


# Where the stack belongs among a record's fields (after ``rank``), for the kinds that carry one.
_STACK_AT = {
    "Creation": 5,
    "Destruction": 3,
    "Ended": 5,
    "NonMember": 3,
    "Touched": 4,
    "Value": 8,
    "Waiting": 2,
}
