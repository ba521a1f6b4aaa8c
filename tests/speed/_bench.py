"""A process of its own that measures what it is asked to, so that no peer meets another's imports.

The asking process starts ``python -m tests.speed._bench FD MODULE`` and sends one line of JSON for
each question; MODULE's function of that name answers, with the seconds it took as it saw them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from harness.launch._processes import kill_tree

ROOT = Path(__file__).parents[2]
OPENS_WITHIN = 60.0
ENDS_WITHIN = 15.0


class BenchError(RuntimeError):
    """A peer could not be measured; the message says which, at what, and what it printed."""


class Bench:
    """A peer: ``ask`` it, in a ``with`` block; everything it started is gone at the end."""

    def __init__(self, peer: str, *, env: Mapping[str, str] | None = None) -> None:
        self.peer = peer
        self._env = dict(env or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._said: IO[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Bench:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start the process and wait until it has what is paid for once."""
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        # Some peers leave files behind, and so does any that is killed.
        self._folder = tempfile.TemporaryDirectory(
            prefix="tests-speed-", ignore_cleanup_errors=True
        )
        environment = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TMPDIR": self._folder.name,
            **self._env,
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.speed._bench", str(theirs.fileno()), self.peer],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._sock = ours
        self._answer("open", OPENS_WITHIN)

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def ask(self, what: str, within: float = 120.0, **arguments: Any) -> Any:
        """Call the peer's function ``what``. Raises `BenchError`, with the peer ended."""
        assert self._sock is not None
        self._sock.settimeout(within)
        try:
            self._sock.sendall(json.dumps({"ask": what, "arguments": arguments}).encode() + b"\n")
        except OSError as error:
            self._fail(what, str(error))
        return self._answer(what, within)

    def world(self) -> float:
        """Seconds for one world: start, one all_reduce, its results, and the end."""
        return float(self.ask("world"))

    def close(self) -> None:
        """End the process and all that it started."""
        if self._process is None:
            return
        assert self._sock is not None
        assert self._said is not None
        self._sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ENDS_WITHIN)
        self._kill()
        self._said.close()
        if self._folder is not None:
            self._folder.cleanup()
        self._process = self._sock = self._said = self._folder = None

    # -- within -----------------------------------------------------------------------------

    def _answer(self, what: str, within: float) -> Any:
        assert self._sock is not None
        self._sock.settimeout(within)
        line = b""
        while not line.endswith(b"\n"):
            try:
                more = self._sock.recv(1 << 20)
            except TimeoutError:
                self._fail(what, f"no answer within {within:g} s")
            except OSError as error:
                self._fail(what, str(error))
            if not more:
                self._fail(what, "its process has ended")
            line += more
        answer = json.loads(line)
        if "error" in answer:
            self._fail(what, answer["error"])
        return answer["answer"]

    def _fail(self, what: str, why: str) -> Any:
        self._kill()
        assert self._said is not None
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace")[-3000:].strip()
        self.close()
        raise BenchError(f"{self.peer}, {what}: {why}\n{said}".rstrip())

    def _kill(self) -> None:
        """The process, its descendants, and its process group where it has left some of those."""
        assert self._process is not None
        if self._process.poll() is None:
            kill_tree(self._process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(ENDS_WITHIN)


def main(descriptor: int, name: str) -> None:
    """Answer questions until the other side is gone."""
    sock = socket.socket(fileno=descriptor)
    module = importlib.import_module(f"tests.speed.peers.{name}")
    _reply(sock, getattr(module, "open_", lambda: None), {})
    with sock.makefile("rb") as lines:
        for line in lines:
            asked = json.loads(line)
            _reply(sock, getattr(module, asked["ask"]), asked["arguments"])
    getattr(module, "close_", lambda: None)()


def _reply(sock: socket.socket, function: Any, arguments: dict[str, Any]) -> None:
    try:
        answer = {"answer": function(**arguments)}
    except Exception:
        answer = {"error": traceback.format_exc()}
    sock.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
