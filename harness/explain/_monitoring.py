"""Follows the user's function by `sys.monitoring`: code that is not followed runs at full speed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from harness.explain._follower import Follower, Frame

_FREE_IDS = (3, 4, 1, 2, 5, 0)


class _Monitor:
    """The callbacks of `sys.monitoring`; each is called by the code that it is about."""

    def __init__(self, follower: Follower, monitoring: Any) -> None:
        self._follower = follower
        self._disable = monitoring.DISABLE
        self._thread = threading.get_ident()
        self._frames: dict[int, Frame] = {}

    def _frame(self, frame: FrameType) -> Frame | None:
        """The followed frame, if it is one; frames of other threads are not."""
        found = self._frames.get(id(frame))
        return found if found is not None and found.frame is frame else None

    def start(self, code: CodeType, *_: Any) -> Any:
        follower = self._follower
        known = follower.known(code)
        if known is None:
            return self._disable
        if not follower.full and threading.get_ident() == self._thread:
            frame = sys._getframe(1)
            self._frames[id(frame)] = follower.entered(known, frame)
        return None

    def throw(self, code: CodeType, *_: Any) -> None:
        known = self._follower.known(code)
        if known is not None and threading.get_ident() == self._thread:
            frame = sys._getframe(1)
            self._frames[id(frame)] = self._follower.entered(known, frame)

    def line(self, code: CodeType, number: int) -> Any:
        if self._follower.known(code) is None:
            return self._disable
        made = self._frame(sys._getframe(1))
        if made is not None:
            self._follower.line(made, number)
        return None

    def left(self, code: CodeType, offset: int, value: Any) -> None:
        frame = sys._getframe(1)
        made = self._frame(frame)
        follower = self._follower
        if made is not None:
            follower.left(made, False)
        elif (
            follower.stack and frame.f_back is follower.stack[-1].frame and follower.awaits_values()
        ):
            follower.returned(code, value)

    def unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        made = self._frame(sys._getframe(1))
        if made is not None:
            self._follower.left(made, True)

    def raised(self, code: CodeType, offset: int, error: BaseException) -> None:
        made = self._frame(sys._getframe(1))
        if made is not None:
            self._follower.raised(made, error, error.__traceback__)

    def branched(self, code: CodeType, offset: int, target: int) -> Any:
        if self._follower.known(code) is None:
            return self._disable
        made = self._frame(sys._getframe(1))
        if made is not None and offset in made.code.jumps:
            self._follower.tested(made, made.last)
        return None


@contextlib.contextmanager
def monitored(follower: Follower) -> Iterator[None]:
    """Follow this thread."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - not in 3.11
    tool = next((n for n in _FREE_IDS if monitoring.get_tool(n) is None), None)
    if tool is None:
        raise RuntimeError("all tools of sys.monitoring are in use")
    monitor = _Monitor(follower, monitoring)
    events = monitoring.events
    callbacks: dict[int, Callable[..., Any]] = {
        events.PY_START: monitor.start,
        events.PY_RESUME: monitor.start,
        events.PY_THROW: monitor.throw,
        events.LINE: monitor.line,
        events.PY_RETURN: monitor.left,
        events.PY_YIELD: monitor.left,
        events.PY_UNWIND: monitor.unwound,
        events.RAISE: monitor.raised,
        events.RERAISE: monitor.raised,
    }
    for name in ("BRANCH_LEFT", "BRANCH_RIGHT") if hasattr(events, "BRANCH_LEFT") else ("BRANCH",):
        callbacks[getattr(events, name)] = monitor.branched
    monitoring.use_tool_id(tool, "pytest-collectives")
    try:
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        monitoring.set_events(tool, sum(callbacks))
        yield
    finally:
        monitoring.set_events(tool, 0)
        for event in callbacks:
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
