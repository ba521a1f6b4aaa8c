"""Follows the user's function in this rank, by `sys.settrace` or, where it exists, `sys.monitoring`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from harness.explain._follower import Follower, Frame
from harness.explain._trace import TracePlan

if TYPE_CHECKING:
    from harness.record._recorder import Recorder


@contextlib.contextmanager
def following(plan: TracePlan, rank: int, recorder: Recorder) -> Iterator[None]:
    """Follow the plan's functions while a function runs; and the calls that the recorder sees."""
    follower = Follower(plan, rank)
    recorder.on_begin = follower.called
    try:
        with watching(follower):
            yield
    finally:
        recorder.on_begin = None


def watching(follower: Follower) -> contextlib.AbstractContextManager[None]:
    """Have the follower told what happens in this thread, in the way that this Python has."""
    if hasattr(sys, "monitoring"):
        from harness.explain._monitoring import monitored

        return monitored(follower)
    return traced(follower)


@contextlib.contextmanager
def traced(follower: Follower) -> Iterator[None]:
    """By `sys.settrace`."""

    def begin(frame: FrameType, event: str, arg: Any) -> Any:
        if event != "call" or follower.full:
            return None
        code = follower.known(frame.f_code)
        if code is not None:
            return _local(follower, follower.entered(code, frame), frame)
        caller = frame.f_back
        stack = follower.stack
        if stack and caller is stack[-1].frame and follower.awaits_values():
            frame.f_trace_lines = False
            return _result(follower, frame.f_code)
        return None

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        yield
    finally:
        sys.settrace(before)


def _local(follower: Follower, made: Frame, frame: FrameType) -> Any:
    jumps = made.code.jumps
    if jumps:
        frame.f_trace_opcodes = True
    raised = False

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal raised
        if event == "line":
            raised = False
            follower.line(made, frame.f_lineno)
        elif event == "opcode":
            if frame.f_lasti in jumps:
                follower.tested(made, frame.f_lineno)
        elif event == "exception":
            raised = follower.raised(made, arg[1], arg[2])
        elif event == "return":
            follower.left(made, raised and arg is None)
        return local

    return local


def _result(follower: Follower, code: CodeType) -> Any:
    raised = False

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal raised
        if event == "exception":
            raised = True
        elif event == "return" and not raised:
            follower.returned(code, arg)
        return local

    return local
