"""The terminal of pytest, lent to the debugger of one rank (``--world-pdb``)."""

from __future__ import annotations

import contextlib
import queue
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.launch._debugger import (
    CLOSE,
    COMPLETE,
    COMPLETIONS,
    END,
    INTERRUPT,
    LINE,
    OPEN,
    QUIT,
    READ,
)

if TYPE_CHECKING:
    import pytest

    from harness.supervisor._outcome import Outcome

GROUP_TIMEOUT = 7 * 24 * 3600.0
"""Seconds that gloo waits for a rank whose debugger may be open."""

COMPLETES_WITHIN = 2.0

Answer = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Heard:
    """What the debugger of a rank says, and what the rank has printed before."""

    what: str
    printed: str
    text: str
    more: Any


class Watch:
    """What the supervisor knows of the debugger: whether it is open, and waits for its user."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.waits = False
        self._left: float | None = None
        self._printed = bytearray()

    @property
    def is_open(self) -> bool:
        """Whether the user goes through the function step by step, or looks at its end."""
        return self._left is not None

    def begin(self, rank: int | None) -> None:
        """A function starts; the debugger is on ``rank``."""
        self.rank, self.waits, self._left = rank, False, None
        self._printed.clear()

    def printed(self, data: bytes) -> None:
        """The rank has printed."""
        self._printed += data

    def heard(self, message: tuple[Any, ...], deadline: float) -> tuple[Heard, float]:
        """For the pytest thread; and the deadline, which is suspended while the debugger is open."""
        _, what, text, more = message
        now = time.monotonic()
        if what == OPEN and self._left is None:
            self._left, deadline = deadline - now, float("inf")
        elif what == CLOSE and self._left is not None:
            deadline, self._left = now + self._left, None
        self.waits = what in (READ, COMPLETIONS, QUIT)
        printed = self._printed.decode("utf-8", "replace")
        self._printed.clear()
        return Heard(what, printed, text, more), deadline


class Console:
    """Shows what the debugger of ``rank`` writes, and reads for it. Used by the pytest thread."""

    def __init__(self, config: pytest.Config, rank: int) -> None:
        self._config = config
        self.rank = rank
        self.is_open = False
        self.opened_at = 0.0
        self._interrupted = False

    def wait(
        self,
        outcomes: queue.SimpleQueue[Outcome | Heard],
        patience: float,
        answer: Answer,
        interrupt: Callable[[], None],
    ) -> Outcome:
        """The outcome of a run, once the debugger is no longer needed.

        Raises queue.Empty if nothing is heard for ``patience`` seconds while it is closed.
        """
        waiting: deque[Outcome | Heard] = deque()
        until = time.monotonic() + patience
        try:
            while True:
                try:
                    said = waiting.popleft() if waiting else outcomes.get(timeout=1.0)
                except queue.Empty:
                    if not self.is_open and time.monotonic() > until:
                        raise
                    continue
                except KeyboardInterrupt:
                    if not self.is_open or self._interrupted:
                        raise
                    self._interrupted = True
                    self._show(f"(sent to rank {self.rank}; Ctrl-C again ends the session)\n")
                    interrupt()
                    continue
                if not isinstance(said, Heard):
                    return said
                self._attend(said, outcomes, waiting, answer)
                until = time.monotonic() + patience
        finally:
            self._close("the world has ended")

    def _attend(
        self,
        said: Heard,
        outcomes: queue.SimpleQueue[Outcome | Heard],
        waiting: deque[Outcome | Heard],
        answer: Answer,
    ) -> None:
        if said.what == OPEN:
            self._open(said.more)
        if self.is_open:
            self._show(said.printed + said.text)
        if said.what == READ:

            def complete(*values: Any) -> list[str]:
                answer(COMPLETE, *values)
                until = time.monotonic() + COMPLETES_WITHIN
                while (left := until - time.monotonic()) > 0:
                    with contextlib.suppress(queue.Empty):
                        said = outcomes.get(timeout=left)
                        if isinstance(said, Heard) and said.what == COMPLETIONS:
                            return list(said.more)
                        waiting.append(said)
                return []

            answer(*self._read(said.more, complete))
        elif said.what == CLOSE:
            self._close("continue")
        elif said.what == QUIT:
            import pytest

            self._close("quit")
            pytest.exit("Quitting debugger")

    def _read(self, prompt: str, complete: Callable[..., list[str]]) -> tuple[str, str]:
        self._interrupted = False
        try:
            with _completing(complete):
                return LINE, input(prompt)
        except KeyboardInterrupt:
            return INTERRUPT, ""
        except EOFError:
            if sys.stdin.isatty():
                return END, ""  # Ctrl-D
        except (OSError, RuntimeError):
            pass  # closed
        self._show("\n")
        import pytest

        pytest.exit(
            f"--world-pdb={self.rank}: the debugger has nothing to read from, for the input of pytest "
            "is closed or at its end; run pytest in a terminal, without redirecting its input"
        )

    def _open(self, how: str) -> None:
        if self.is_open:
            return
        self.is_open, self.opened_at = True, time.monotonic()
        capture = self._config.pluginmanager.getplugin("capturemanager")
        off = ""
        if capture is not None and capture.is_capturing():
            off = " (IO-capturing turned off)"
            capture.suspend(in_=True)
        self._line(f"PDB {how} on rank {self.rank}{off}")
        # pytest-timeout and pytest's faulthandler end their watch.
        self._config.hook.pytest_enter_pdb(config=self._config, pdb=self)

    def _close(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        capture = self._config.pluginmanager.getplugin("capturemanager")
        captures = capture is not None and self._config.getoption("capture") != "no"
        self._line(f"PDB {why}{' (IO-capturing resumed)' if captures else ''}")
        if capture is not None:
            capture.resume()
        self._config.hook.pytest_leave_pdb(config=self._config, pdb=self)

    def _line(self, title: str) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is not None:
            terminal.write_sep(">", title)
            terminal.flush()
        else:
            self._show(f"{title}\n")

    @staticmethod
    def _show(text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()


@contextlib.contextmanager
def _completing(complete: Callable[..., list[str]]) -> Iterator[None]:
    """While ``input()`` reads from a terminal, the tab key asks the rank."""
    try:
        import readline
    except ImportError:
        yield
        return
    found: list[str] = []

    def matches(text: str, state: int) -> str | None:
        if state == 0:
            line, begin, end = (
                readline.get_line_buffer(),
                readline.get_begidx(),
                readline.get_endidx(),
            )
            found[:] = complete(text, line, begin, end)
        return found[state] if state < len(found) else None

    before = readline.get_completer()
    readline.set_completer(matches)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)


def console(config: pytest.Config, rank: int | None) -> Console | None:
    """The terminal for the option's rank. Raises `pytest.UsageError` in a worker of pytest-xdist."""
    if rank is None:
        return None
    import pytest

    if hasattr(config, "workerinput") or config.getoption("dist", "no") != "no":
        raise pytest.UsageError(
            f"--world-pdb={rank}: the workers of pytest-xdist have no terminal; run with -n0, or "
            "without -n"
        )
    return Console(config, rank)


def check(console: Console | None, world_size: int) -> None:
    """Raise RuntimeError where a world has not the rank to be debugged."""
    if console is not None and console.rank >= world_size:
        raise RuntimeError(
            f"--world-pdb={console.rank}: this world has {world_size} ranks, 0 to "
            f"{world_size - 1}; give one of them, or select the test to debug with -k"
        )
