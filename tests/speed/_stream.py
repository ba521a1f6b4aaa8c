"""The records of a long correct run of four ranks in lockstep, made as they are asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.record import (
    Call,
    Ended,
    Finished,
    Frame,
    GroupMade,
    Record,
    Stack,
    Started,
    TensorInfo,
    Waiting,
)

SIZE = 4
EVERY = 4
"""An async all_reduce and a message around the ring come with every fourth step."""

PERIOD = SIZE * (2 * EVERY + 3 + 6)
"""So many records later the run is at the same point again, with nothing under way."""


def beginning() -> Iterator[Record]:
    """The default group is there and every rank enters its function."""
    for rank in range(SIZE):
        yield GroupMade(rank, "0", tuple(range(SIZE)), "world")
    for rank in range(SIZE):
        yield Started(rank, 0.0)


def ending() -> Iterator[Record]:
    """Every rank returns."""
    for rank in range(SIZE):
        yield Ended(rank, "returned", 1e9)


def middle() -> Iterator[Record]:
    """Steps without end: an all_reduce in each, more in every fourth; ranks take turns."""
    numbers = itertools.count(1)
    calls, collectives, messages = itertools.count(), itertools.count(), itertools.count()
    for step in itertools.count():
        now = next(numbers) * 1e-3
        number, index = next(calls), next(collectives)
        for rank in range(SIZE):
            yield _call(rank, number, "all_reduce", index, step, now, async_op=False)
        for rank in range(SIZE):
            yield Finished(rank, number, 0, now)
        if step % EVERY:
            continue
        number, index = next(calls), next(collectives)
        for rank in range(SIZE):
            yield _call(rank, number, "all_reduce", index, step, now, async_op=True)
        yield from _waited(number, now)
        sent, received, index = next(calls), next(calls), next(messages)
        for rank in range(SIZE):
            yield _message(rank, sent, "send", (rank + 1) % SIZE, index, step, now)
        for rank in range(SIZE):
            yield _message(rank, received, "recv", (rank - 1) % SIZE, index, step, now)
        yield from _waited(received, now)
        yield from _waited(sent, now)


def _waited(number: int, now: float) -> Iterator[Record]:
    for rank in range(SIZE):
        yield Waiting(rank, number, 0, _stack(30, 0), now)
    for rank in range(SIZE):
        yield Finished(rank, number, 0, now)


def _stack(line: int, step: int) -> Stack:
    """Frames of its own for each record, as they come off the wire where a loop has a value."""
    return (
        Frame("train.py", line, "step", "dist.call(x)", (("step", str(step)),), (), True),
        Frame("train.py", 90, "main", "step()", (), ()),
    )


def _tensor(serial: int) -> TensorInfo:
    return TensorInfo("float32", (4,), True, 64 * serial, 0, 64 * serial, 16, True, serial)


def _call(
    rank: int, number: int, op: str, index: int, step: int, now: float, *, async_op: bool
) -> Call:
    line, serial = (20, 2) if async_op else (10, 1)
    return Call(
        rank, number, 0, "0", index, op, "SUM", None, None, None, (_tensor(serial),), (),
        None, None, async_op, _stack(line, step), now,
    )  # fmt: skip


def _message(rank: int, number: int, op: str, peer: int, index: int, step: int, now: float) -> Call:
    inputs, outputs = ((_tensor(3),), ()) if op == "send" else ((), (_tensor(4),))
    return Call(
        rank, number, 0, "0", index, op, None, None, peer, 0, inputs, outputs,
        None, None, None, _stack(25, step), now,
    )  # fmt: skip
