"""The debugger in a rank: pdb, whose terminal is that of the pytest process.

What it prints and reads crosses the rank's socket. The supervisor holds its judgement while a prompt
is open; the other ranks go on until they wait for this one.
"""

from __future__ import annotations

import bdb
import code
import io
import os
import pdb
import signal
import socket
import sys
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from harness.launch import _outcomes
from harness.record._wire import unframe

if TYPE_CHECKING:
    from harness.record._wire import Channel

DEBUG = "debug"
OPEN, READ, COMPLETIONS, CLOSE, QUIT = "open", "read", "completions", "close", "quit"
LINE, END, INTERRUPT, COMPLETE = "line", "end", "interrupt", "complete"

_RUNNING = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CURRENT_TEST = "PYTEST_CURRENT_TEST"


class Debugger:
    """What ``breakpoint()``, ``pdb.set_trace()`` and an uncaught exception do in this rank.

    ``chosen`` is the rank that is to be debugged; without one a breakpoint is an error.
    """

    def __init__(
        self, rank: int, chosen: int | None, channel: Channel, sock: socket.socket
    ) -> None:
        self._rank, self._chosen = rank, chosen
        self._channel = channel
        self._process = os.getpid()
        self._terminal = _Terminal(channel, sock)
        self._pdb: _Pdb | None = None
        self._is_open = False
        self._passed = False

    def install(self) -> None:
        """Take the place of every function that opens a debugger."""
        sys.breakpointhook = self._breakpoint
        pdb.set_trace = self._set_trace
        # pytest.set_trace, which is also what a test module gets with "from pdb import set_trace".
        module = sys.modules.get("_pytest.debugging")
        if module is not None:
            module.pytestPDB._init_pdb = self._pytests
        torch = sys.modules.get("torch.distributed")
        if torch is not None:
            torch.breakpoint = self._torch_breakpoint  # type: ignore[attr-defined]

    def _breakpoint(self, *_: Any, header: str | None = None, **__: Any) -> None:
        if os.environ.get("PYTHONBREAKPOINT") != "0":
            self._stop("breakpoint()", sys._getframe(1), header)

    def _set_trace(self, *_: Any, header: str | None = None, **__: Any) -> None:
        self._stop("pdb.set_trace()", sys._getframe(1), header)

    def _pytests(self, *_: Any, header: str | None = None, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(set_trace=lambda frame: self._stop("pdb.set_trace()", frame, header))

    def _torch_breakpoint(self, rank: int = 0, *_: Any, **__: Any) -> None:
        call, frame = "torch.distributed.breakpoint()", sys._getframe(1)
        if rank == self._rank and self._chosen is None:
            self._stop(call, frame, None)
        # As torch has it; but before the debugger stops, which would step into it.
        sys.modules["torch.distributed"].barrier()
        if rank == self._rank:
            self._stop(call, frame, None)

    def _stop(self, call: str, frame: FrameType, header: str | None) -> None:
        file = frame.f_code.co_filename.removeprefix(os.path.join(os.getcwd(), ""))
        place = f"{call} on rank {self._rank} at {file}:{frame.f_lineno}"
        if os.getpid() != self._process:
            raise RuntimeError(f"{place}, in a process that the rank started: it has no terminal")
        if self._chosen is None:
            raise RuntimeError(f"{place}: a rank has no terminal{self._what_to_do()}")
        if self._chosen == self._rank:
            debugger = self._made()
            if header is not None:
                self._terminal.write(f"{header}\n")
            sys.settrace(None)  # else it would stop in itself
            debugger.set_trace(frame)
        elif not self._passed:
            self._passed = True
            print(f"{place} is passed over: --world-pdb={self._chosen}", file=sys.stderr)

    def _what_to_do(self) -> str:
        if _CURRENT_TEST not in os.environ:
            return ""
        command = f"pytest --world-pdb={self._rank} (without -n)"
        return f"; run this test with {command} to debug on that rank"

    def _made(self) -> _Pdb:
        # One for all: what the user has set in it (breakpoints, displays, aliases) stays.
        if self._pdb is None:
            self._pdb = _Pdb(self, self._terminal, self._rank)
            self._terminal.complete = self._pdb.completions
        return self._pdb

    def post_mortem(self, error: BaseException) -> None:
        """Open the debugger where the function failed, on the rank that is to be debugged."""
        trace = _outcomes.users_traceback(error)
        if (
            self._chosen != self._rank
            or trace is None
            or isinstance(error, bdb.BdbQuit)
            or _outcomes.outcome(error) in ("skipped", "xfailed")
        ):
            return
        sys.settrace(None)
        debugger = self._made()
        self.opened("post_mortem")
        self._terminal.write(_outcomes.traceback_text(error))
        debugger.reset()
        debugger.interaction(None, trace)
        self.closed()

    def function_ended(self) -> None:
        """No line is traced any more: what follows is not the user's."""
        if self._pdb is not None:
            sys.settrace(None)
            self.closed()

    # -- called by the debugger -------------------------------------------------------------

    def opened(self, how: str) -> None:
        """It is about to show a prompt."""
        if not self._is_open:
            self._is_open = True
            self._terminal.say(OPEN, how)

    def closed(self) -> None:
        """The function goes on by itself."""
        if self._is_open:
            self._is_open = False
            self._terminal.say(CLOSE)

    def quit(self) -> None:
        """The user has had enough: the pytest session ends, and with it this process."""
        self._is_open = False
        self._terminal.say(QUIT)


class _Terminal(io.TextIOBase):
    """A text file, to write and to read lines, whose other end is the terminal of pytest."""

    def __init__(self, channel: Channel, sock: socket.socket) -> None:
        self._channel, self._sock = channel, sock
        self._buffer = bytearray()
        self._written = ""
        self.complete: Any = None

    def write(self, text: str) -> int:
        """Keep the text; it crosses with the next prompt."""
        self._written += text
        return len(text)

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        """Ask for a line; what was written last, without a newline, is the prompt."""
        text, newline, prompt = self._written.rpartition("\n")
        self._written = prompt
        self._send(READ, text + newline, prompt)
        self._written = ""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            what, line = self._answer()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if what == INTERRUPT:
            raise KeyboardInterrupt
        return line + "\n" if what == LINE else ""

    def say(self, what: str, prompt: str = "") -> None:
        """Tell what the debugger does, and hand over what it has written."""
        text, self._written = self._written, ""
        self._send(what, text, prompt)

    def _send(self, what: str, *values: Any) -> None:
        # What the function has printed is to be shown before.
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        self._channel.send(DEBUG, what, *values)

    def _answer(self) -> tuple[str, str]:
        while True:
            for what, *values in unframe(self._buffer):
                if what != COMPLETE:
                    return what, values[0]
                self._channel.send(DEBUG, COMPLETIONS, "", self.complete(*values))
            data = self._sock.recv(1 << 16)  # ends with the supervisor, as the rank does
            if not data:
                os._exit(1)
            self._buffer += data


class _Pdb(pdb.Pdb):
    """Python's debugger, which tells when it stops and when it lets the function go on."""

    def __init__(self, owner: Debugger, terminal: _Terminal, rank: int) -> None:
        super().__init__(
            stdin=cast(Any, terminal),
            stdout=cast(Any, terminal),
            skip=["harness.launch.*", "harness.record.*"],
            nosigint=True,  # Ctrl-C is pytest's
        )
        self.prompt = f"(rank {rank} Pdb) "
        self._owner = owner
        self._terminal = terminal

    def interaction(self, *args: Any, **kwargs: Any) -> None:
        """A prompt opens."""
        self._owner.opened("set_trace")
        super().interaction(*args, **kwargs)

    def do_continue(self, arg: str) -> Any:
        """Continue until the next breakpoint."""
        done = super().do_continue(arg)
        self._owner.closed()
        return done

    def do_quit(self, arg: str) -> Any:
        """End the pytest session."""
        done = super().do_quit(arg)
        self._owner.quit()
        return done

    def do_run(self, arg: str) -> None:
        """A rank cannot be restarted."""
        self.error("a rank cannot be restarted: quit, and run pytest again")

    def do_interact(self, arg: str) -> None:
        """Start an interpreter with the names of this frame; Ctrl-D ends it."""
        assert self.curframe is not None
        names = {**self.curframe.f_globals, **self.curframe.f_locals}
        streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self._terminal
        try:
            code.interact("*interactive*", self._line, names, "")
        finally:
            sys.stdout, sys.stderr = streams

    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit
    do_restart = do_run

    def _line(self, prompt: str = "") -> str:
        self._terminal.write(prompt)
        line = self._terminal.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def get_stack(self, *args: Any, **kwargs: Any) -> Any:
        """The frames from the user's function on, without those that called it."""
        stack, current = super().get_stack(*args, **kwargs)
        for place in reversed(range(len(stack))):
            of = stack[place][0].f_code
            if of.co_name == "_call" and of.co_filename.startswith(_RUNNING) and place < current:
                return stack[place + 1 :], current - place - 1
        return stack, current

    def completions(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """What the word in ``line[begin:end]`` may become, as `cmd.Cmd.complete` finds it."""
        stripped = line.lstrip()
        begin, end = (place - len(line) + len(stripped) for place in (begin, end))
        try:
            if begin <= 0:
                return list(self.completenames(text, stripped, begin, end))
            command = self.parseline(stripped)[0]
            find = getattr(self, f"complete_{command}", None) if command else None
            return list((find or self.completedefault)(text, stripped, begin, end))
        except Exception:
            return []
