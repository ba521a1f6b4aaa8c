"""Writes down what happens in the functions of a `TracePlan`: lines, calls, exceptions, values.

Runs in a rank. Python's two ways of telling of such events (`_tracer`, `_monitoring`) both call it.
"""

from __future__ import annotations

import contextlib
import dis
import threading
import time
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from harness.explain import _trace as trace
from harness.explain._evaluate import Unsafe, evaluate
from harness.explain._summary import printable, summary
from harness.explain._trace import Captures, TracePlan, TraceWriter
from harness.record._stacks import is_users

MOST_CAPTURES = 20_000
SECONDS_AT_A_LINE = 0.2
SECONDS = 0.6
"""Values of large tensors take time: so much is spent on those of one line, and on all of them."""
LONGEST_MESSAGE = 200

_GENERATOR = 0x20 | 0x80 | 0x200
"""Flags of code that may be left and entered again: generators and coroutines."""


class _Code:
    """What is known of a code object that is followed."""

    __slots__ = ("captures", "code", "ends", "jumps", "note", "resumes", "spent")

    def __init__(self, note: int, captures: Captures, code: CodeType) -> None:
        self.note = note
        self.code = code
        self.captures = captures
        self.spent: dict[int, float] = {}
        self.ends: frozenset[int] | None = None
        self.resumes = bool(code.co_flags & _GENERATOR)
        self.jumps = _tests(code) if code.co_name in _COMPREHENSIONS else frozenset()

    def ends_at(self, offset: int) -> bool:
        """Whether a `StopIteration` there is the end of a loop, and nothing that was raised."""
        if self.ends is None:
            self.ends = _instructions(self.code, _END)
        return offset in self.ends


_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


_END = ("FOR_ITER", "SEND", "END_SEND", "GET_ANEXT", "END_ASYNC_FOR", "YIELD_FROM")


def _tests(code: CodeType) -> frozenset[int]:
    """Where a comprehension decides whether to take an element."""
    return _instructions(code, ("JUMP_IF",))


def _instructions(code: CodeType, names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(
        i.offset for i in dis.get_instructions(code) if any(name in i.opname for name in names)
    )


def message(error: BaseException) -> str:
    """What an exception says, unless that would run code of the user's."""
    says = type(error).__str__
    code = getattr(says, "__code__", None)
    plain = all(isinstance(arg, (str, int, float, type(None))) for arg in error.args)
    if is_users(code.co_filename) if code is not None else not plain:
        return ""
    with contextlib.suppress(Exception):
        return printable(str(error)[:LONGEST_MESSAGE])
    return ""


class Frame:
    """A frame that is followed."""

    __slots__ = ("code", "frame", "last", "number")

    def __init__(self, number: int, code: _Code, frame: FrameType) -> None:
        self.number = number
        self.code = code
        self.frame = frame
        self.last = 0


class Follower:
    """Writes what happens in followed frames; both ways of tracing call it."""

    def __init__(self, plan: TracePlan, rank: int) -> None:
        self._writer = TraceWriter(plan.path, rank, plan.events)
        self._functions = plan.functions
        self._codes: dict[int, tuple[CodeType, _Code | None]] = {}
        self._suspended: dict[int, Frame] = {}
        self._captured = 0
        self._spent = 0.0
        self._frames = 0
        self._thread = threading.get_ident()
        self.stack: list[Frame] = []
        self.full = False

    def known(self, code: CodeType) -> _Code | None:
        """The code's entry if it is followed."""
        found = self._codes.get(id(code))
        if found is None:
            captures = self._functions.get((code.co_filename, code.co_qualname))
            made = None
            if captures is not None:
                lines = tuple({line for _, _, line in code.co_lines() if line is not None})
                first = code.co_firstlineno
                note = self._writer.note((code.co_filename, code.co_qualname, first, lines))
                made = None if note is None else _Code(note, captures, code)
            found = self._codes[id(code)] = code, made
        return found[1]

    def entered(self, code: _Code, frame: FrameType) -> Frame:
        """A followed frame begins, or goes on."""
        again = self._suspended.pop(id(frame), None) if code.resumes else None
        if again is not None:
            self.stack.append(again)
            self._add(trace.RESUME, again.number, 0)
            return again
        self._frames += 1
        made = Frame(self._frames, code, frame)
        self._add(trace.ENTER, made.number, code.note)
        if self.stack:
            self._add(trace.PARENT, made.number, self.stack[-1].number)
        self.stack.append(made)
        return made

    def left(self, frame: Frame, raised: bool) -> None:
        """It ends, or hands out a value and may go on later."""
        while self.stack and self.stack.pop() is not frame:
            pass
        if frame.code.resumes:
            self._suspended[id(frame.frame)] = frame
        self._add(trace.LEAVE, frame.number, int(raised))

    def line(self, frame: Frame, line: int) -> None:
        """A line begins."""
        self._add(trace.LINE, frame.number, line)
        capture = frame.code.captures.get(line)
        if capture is not None and not frame.code.jumps:
            texts, (first, last) = capture
            if not first <= frame.last <= last:
                self._values(frame, texts)
        frame.last = line

    def tested(self, frame: Frame, line: int) -> None:
        """A comprehension is about to decide on an element."""
        capture = frame.code.captures.get(line)
        if capture is not None:
            self._values(frame, capture[0])

    def raised(self, frame: Frame, error: BaseException, step: TracebackType | None) -> bool:
        """An exception passes through; False for one by which a loop or a generator ends."""
        if isinstance(error, GeneratorExit):
            return False
        stop = isinstance(error, (StopIteration, StopAsyncIteration))
        if stop and frame.code.ends_at(frame.frame.f_lasti):
            return False
        text = message(error)
        place = None
        while step is not None:
            code = step.tb_frame.f_code
            if is_users(code.co_filename):
                place = code.co_filename, step.tb_lineno, code.co_qualname
            step = step.tb_next
        note = self._writer.note((type(error).__name__, text, place))
        if note is not None:
            self._add(trace.RAISED, frame.number, note)
        capture = frame.code.captures.get(frame.last)
        if capture is not None:
            self._values(frame, capture[0])
        return True

    def returned(self, code: CodeType, value: Any) -> None:
        """A function that is not followed, called by a followed one, hands back its result."""
        if self.stack and is_users(code.co_filename) and not code.co_flags & _GENERATOR:
            note = self._writer.note((code.co_name, summary(value) or ""))
            if note is not None:
                self._add(trace.RETURNED, self.stack[-1].number, note)

    def called(self, number: int) -> None:
        """The rank begins a collective."""
        if threading.get_ident() == self._thread:
            self._add(trace.CALL, self.stack[-1].number if self.stack else 0, number)

    def awaits_values(self) -> bool:
        """Whether the innermost followed frame is at a line whose values matter."""
        return bool(self.stack) and self.stack[-1].last in self.stack[-1].code.captures

    def _values(self, frame: Frame, texts: tuple[str, ...]) -> None:
        line, spent = frame.frame.f_lineno, frame.code.spent
        if self._captured >= MOST_CAPTURES or self._spent > SECONDS:
            return
        if spent.get(line, 0.0) > SECONDS_AT_A_LINE:
            return
        self._captured += 1
        began = time.perf_counter()
        inner = frame.frame
        own, everywhere = inner.f_locals, inner.f_globals
        found = []
        # What is looked at here must not seem to be the user's doing.
        watched = torch._C._len_torch_dispatch_stack() > 0
        with _disable_current_modes() if watched else contextlib.nullcontext():
            for text in texts:
                try:
                    shown = summary(evaluate(text, own, everywhere))
                except Unsafe:
                    continue
                if shown is not None:
                    found.append((text, shown))
        note = self._writer.note(tuple(found))
        if note is not None:
            self._add(trace.VALUES, frame.number, note)
        took = time.perf_counter() - began
        spent[line] = spent.get(line, 0.0) + took
        self._spent += took

    def _add(self, kind: int, frame: int, number: int) -> None:
        if not self.full and not self._writer.add(kind, frame, number):
            self.full = True
