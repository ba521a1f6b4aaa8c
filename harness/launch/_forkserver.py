"""The pytest side of the server: start it once, ask it for worlds, end it."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from harness.launch._coverage import unmeasured
from harness.launch._server import FDS_PER_RANK, RANKS_PER_MESSAGE
from harness.launch._spec import WorldSpec

SERVER_ENDS_WITHIN = 10.0
_BUFFER = 1 << 20


class LaunchError(RuntimeError):
    """The ranks of a world could not be started; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RankEnds:
    """The pytest side's ends of one rank: its socket, and what it prints."""

    sock: socket.socket
    out: int
    err: int


@dataclass(slots=True)
class Launched:
    """A world that is starting: the control socket to the server and each rank's ends."""

    control: socket.socket
    ranks: list[RankEnds] = field(default_factory=list)

    def close(self) -> None:
        """Close every end; the server kills what still runs."""
        self.control.close()
        for ends in self.ranks:
            ends.sock.close()
            for descriptor in (ends.out, ends.err):
                with contextlib.suppress(OSError):
                    os.close(descriptor)


class ForkServer:
    """The server process of this process, started when the first world needs it."""

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = tuple(preload)
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._said: IO[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()
        self._asked = False

    def start(self) -> None:
        """Start the server, without waiting for it to be ready."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                if self._process.poll() is None:
                    return
                self._forget()
            self._launch()

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            self._begin(theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._requests = ours
        self._owner = os.getpid()

    def _begin(self, theirs: socket.socket) -> None:
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            "import harness.launch._server as server\n"
            f"server.main({theirs.fileno()}, {self._preload!r})"
        )
        # Its own output matters only if it ends before its time; ranks have pipes of their own.
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**unmeasured(os.environ), "OMP_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError:
            said.close()
            raise
        self._said = said

    def launch(self, spec: WorldSpec) -> Launched:
        """Ask for the ranks of a world. Raises `LaunchError` where the server is gone."""
        with contextlib.ExitStack() as on_error, contextlib.ExitStack() as theirs:
            try:
                self.start()
                control, to_server = _pair(on_error, theirs)
                launched = Launched(control)
                descriptors: list[int] = []
                for _ in range(spec.layout.world_size):
                    ours, sock = _pair(on_error, theirs)
                    for end in (ours, sock):
                        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                            end.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
                    out, out_write = _pipe(on_error, theirs)
                    err, err_write = _pipe(on_error, theirs)
                    launched.ranks.append(RankEnds(ours, out, err))
                    descriptors += sock.fileno(), out_write, err_write
                self._ask(spec, control, to_server, descriptors)
            except OSError as error:
                raise LaunchError(self._trouble(spec, error)) from error
            on_error.pop_all()
        return launched

    def _ask(
        self,
        spec: WorldSpec,
        control: socket.socket,
        theirs: socket.socket,
        descriptors: list[int],
    ) -> None:
        assert self._requests is not None
        self._asked = True
        with self._lock:
            socket.send_fds(self._requests, [b"w"], [theirs.fileno()])
        request = pickle.dumps((spec.layout.world_size, spec))
        control.settimeout(60)  # the server may still be importing torch
        control.sendall(len(request).to_bytes(4, "little") + request)
        size = RANKS_PER_MESSAGE * FDS_PER_RANK
        for start in range(0, len(descriptors), size):
            socket.send_fds(control, [b"r"], descriptors[start : start + size])
        control.setblocking(False)

    def _trouble(self, spec: WorldSpec, error: OSError) -> str:
        if error.errno is not None and "open files" in str(error):
            return (
                f"a world of {spec.layout.world_size} ranks needs about "
                f"{6 * spec.layout.world_size} open files and this process may open no more: "
                "raise the limit (ulimit -n) or close worlds that are not needed"
            )
        return f"the ranks could not be started: {error}. {self.last_words()}"

    def last_words(self) -> str:
        """What the server printed, for the report of its untimely end."""
        if self._said is None:
            return ""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - 4000))
        text = self._said.read().decode("utf-8", "replace").strip()
        return f"The server that starts ranks said:\n{text}" if text else ""

    def close(self) -> None:
        """End the server and with it every rank; returns when it is gone."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        if self._requests is not None:
            self._requests.close()
        if not self._asked:
            self._process.kill()  # it has no rank, and would first import to the end
        self._asked = False
        try:
            self._process.wait(SERVER_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(SERVER_ENDS_WITHIN)
        if self._said is not None:
            self._said.close()
        self._process = self._requests = self._said = None


def _pair(
    on_error: contextlib.ExitStack, theirs: contextlib.ExitStack
) -> tuple[socket.socket, socket.socket]:
    """A socket for us, closed if anything goes wrong, and one to give away, closed in any case."""
    ours, other = socket.socketpair()
    return on_error.enter_context(ours), theirs.enter_context(other)


def _pipe(on_error: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[int, int]:
    """The same for a pipe: its end to read, and its end to write."""
    read, write = os.pipe()
    on_error.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


_servers: dict[tuple[str, ...], ForkServer] = {}
_at_exit = False


def server_for(preload: Sequence[str] = ()) -> ForkServer:
    """The server of this process that has imported ``preload``."""
    global _at_exit
    key = tuple(preload)
    found = _servers.get(key)
    if found is None:
        if not _at_exit:
            _at_exit = True
            atexit.register(close_servers)
        found = _servers[key] = ForkServer(key)
    return found


def close_servers(of: Sequence[str] | None = None) -> None:
    """End the servers of this process, or only the one that has imported ``of``."""
    for key in list(_servers) if of is None else [tuple(of)]:
        found = _servers.pop(key, None)
        if found is not None:
            found.close()
