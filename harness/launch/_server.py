"""The server: a process that has imported torch once and forks every rank from itself.

It is started by the pytest process and ends with it. One socket brings a request per world, as
the world's own control socket; that socket's end is the world's end, so whatever becomes of
pytest, no rank outlives it. The server judges nothing: it forks, reaps, kills and asks for stacks.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import getpass
import importlib
import os
import pickle
import resource
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.launch import _processes
from harness.launch._coverage import unmeasured
from harness.launch._spec import WorldSpec
from harness.record._wire import frame, unframe

if TYPE_CHECKING:
    from harness.launch._stack_request import StackRequest

REFUSED, STARTED, EXIT, STACKS, GONE = "refused", "started", "exit", "stacks", "gone"
START, KILL = "start", "kill"

FDS_PER_RANK = 3
RANKS_PER_MESSAGE = 64
"""A message may carry 253 descriptors."""

ORPHAN_CHECK = 1.0

IDLE = 1.0
AFTER_THE_FIRST_WORLD = (
    "sympy",
    "torch.distributed.tensor",
    "torch.distributed.fsdp",
    "torch._inductor.cpp_builder",
    "torch._dynamo",
)
"""What optimizers import at their first step: seconds in every rank, if the server does not.

Nobody wants to wait for it at the start, so it is done when there is nothing else to do, and in
parts, none of which takes much longer than half a second, for a world may be asked for meanwhile.
"""


def receive_exactly(sock: socket.socket, length: int) -> bytes:
    """Read ``length`` bytes; raises EOFError where the other side is gone."""
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@dataclass
class _World:
    """A world of the server: its ranks' processes, and the socket to who asked for it."""

    sock: socket.socket
    store: int = -1
    pids: dict[int, int] = field(default_factory=dict)
    stacks: dict[int, int] = field(default_factory=dict)
    buffer: bytearray = field(default_factory=bytearray)
    ending: bool = False

    def send(self, *values: Any) -> None:
        """Tell the other side; its end is noticed elsewhere."""
        with contextlib.suppress(OSError):
            self.sock.sendall(frame(*values))


class Server:
    """The loop of the server process."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._parent = os.getppid()
        self._worlds: dict[int, _World] = {}
        self._by_pid: dict[int, tuple[_World, int]] = {}
        self._asked: list[tuple[_World, int, StackRequest]] = []
        self._trouble = ""
        self._served = False
        self._idle = False
        self._to_do: list[Callable[[], object]] = [
            *(functools.partial(_import_if_there, name) for name in AFTER_THE_FIRST_WORLD),
            _settle,
            _processes.use_huge_pages,
        ]
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ, self._new_world)
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._reap)

    def preload(self, modules: Sequence[str]) -> None:
        """Import what every rank needs, once. A module that fails is said at each start."""
        import torch

        from harness.launch import _rank, _store, _template

        torch.set_num_threads(1)
        self._rank_main = _rank.rank_main
        self._prepare_store = _store.prepare
        self._template = _template.Template()
        for module in modules:
            try:
                importlib.import_module(module)
            except BaseException as error:
                self._trouble = (
                    f"world_preload: the module {module!r} cannot be imported: "
                    f"{type(error).__name__}: {error}. Mend it or take it out of world_preload."
                )
        if threading.active_count() > 1:
            names = ", ".join(t.name for t in threading.enumerate()[1:])
            self._trouble = self._trouble or (
                f"world_preload: importing {', '.join(modules)} left threads running ({names}), "
                "and a process with threads cannot be forked safely. Take the module that starts "
                "them out of world_preload."
            )
        gc.freeze()  # never collected from now on, so the pages stay shared with the ranks

    def serve(self) -> None:
        """Run until the pytest process is gone."""
        _processes.adopt_orphans()
        # pytest's own limit may be low for a moment; each world says what its ranks may have.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            while os.getppid() == self._parent:
                events = self._selector.select(self._patience())
                self._idle = not events and not self._asked
                for key, _ in events:
                    if key.data() is False:
                        return
                self._answer_stacks()
                if self._idle and self._served and self._to_do:
                    self._to_do.pop(0)()
        finally:
            for world in list(self._worlds.values()):
                self._kill(world)
            self._wait_for_all()

    def _patience(self) -> float:
        if self._asked:
            return 0.005
        if not self._served or not self._to_do:
            return ORPHAN_CHECK
        return 0 if self._idle else IDLE

    # -- worlds -----------------------------------------------------------------------------

    def _new_world(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._requests, 1, 1)
        if not data:
            return False
        sock = socket.socket(fileno=descriptors[0])
        sock.settimeout(30)
        world = _World(sock)
        try:
            length = int.from_bytes(receive_exactly(sock, 4), "little")
            ranks, spec = pickle.loads(receive_exactly(sock, length))
            received: list[int] = []
            while len(received) < ranks * FDS_PER_RANK:
                some, fds, _, _ = socket.recv_fds(sock, 1, RANKS_PER_MESSAGE * FDS_PER_RANK)
                if not some:
                    raise EOFError
                received.extend(fds)
        except (EOFError, OSError):
            sock.close()
            return True
        if self._trouble:
            world.send(REFUSED, self._trouble)
            for descriptor in received:
                os.close(descriptor)
            sock.close()
            return True
        self._start(world, spec, received)
        return True

    def _start(self, world: _World, spec: WorldSpec, received: list[int]) -> None:
        self._served = True
        if self._template.suits(spec):
            with contextlib.suppress(Exception):  # a rank says what is wrong
                self._template.install_mpu(spec)
        ranks = range(spec.layout.world_size)
        groups = [received[r * FDS_PER_RANK : (r + 1) * FDS_PER_RANK] for r in ranks]
        trouble = ""
        try:
            world.store = _anonymous_file("store")
            self._prepare_store(world.store)
        except OSError as error:
            trouble, ranks = f"the ranks' store could not be made: {error}", range(0)
        for rank, descriptors in zip(ranks, groups, strict=False):
            try:
                stacks = _anonymous_file(f"stacks-{rank}")
                world.stacks[rank] = stacks
                pid = self._fork(rank, spec, world, descriptors, received, stacks)
            except OSError as error:
                trouble = f"rank {rank} could not be started: {error}"
                break
            world.pids[rank] = pid
            self._by_pid[pid] = (world, rank)
        for descriptor in received:
            os.close(descriptor)
        self._worlds[id(world)] = world
        self._selector.register(
            world.sock, selectors.EVENT_READ, lambda world=world: self._command(world)
        )
        if trouble:
            world.send(REFUSED, trouble)
            self._kill(world)
        else:
            world.send(STARTED, [world.pids[r] for r in ranks])

    def _fork(
        self,
        rank: int,
        spec: WorldSpec,
        world: _World,
        descriptors: list[int],
        received: list[int],
        stacks: int,
    ) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._close_in_rank(world, set(received) - set(descriptors), stacks)
            if spec.hash_seed:
                _exec_rank(rank, spec, world.store, descriptors, stacks)
            sock, out, err = descriptors
            connection = socket.socket(fileno=sock)
            self._rank_main(rank, spec, world.store, connection, out, err, stacks, self._template)
        finally:
            os._exit(1)

    def _close_in_rank(self, own: _World, others: set[int], stacks: int) -> None:
        """Close the server's descriptors: a rank that held them would hide that pytest is gone."""
        self._selector.close()
        self._requests.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for world in (*self._worlds.values(), own):
            with contextlib.suppress(OSError):
                world.sock.close()
            for descriptor in (world.store, *world.stacks.values()):
                if descriptor not in (own.store, stacks):
                    with contextlib.suppress(OSError):
                        os.close(descriptor)
        for descriptor in others:
            os.close(descriptor)

    def _command(self, world: _World) -> None:
        try:
            data = world.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._kill(world)
            return
        world.buffer += data
        for message in unframe(world.buffer):
            if message[0] == KILL:
                self._kill(world)
            elif message[0] == STACKS:
                self._ask_stacks(world, message[1], message[2])

    def _kill(self, world: _World) -> None:
        world.ending = True
        for pid in world.pids.values():
            _processes.kill_tree(pid)
        self._finish_if_empty(world)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._gone(pid, status)

    def _gone(self, pid: int, status: int) -> None:
        world, rank = self._by_pid.pop(pid, (None, -1))
        if world is None:
            return  # an adopted orphan
        # A rank that dies leaves what it started: its process group is still named by its pid.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        del world.pids[rank]
        world.send(EXIT, rank, _processes.describe_status(status))
        self._finish_if_empty(world)

    def _finish_if_empty(self, world: _World) -> None:
        if world.pids or not world.ending or id(world) not in self._worlds:
            return
        del self._worlds[id(world)]
        if not self._worlds:
            self._kill_orphans()
        for descriptor in (world.store, *world.stacks.values()):
            if descriptor >= 0:
                os.close(descriptor)
        self._selector.unregister(world.sock)
        world.send(GONE)
        world.sock.close()

    def _kill_orphans(self) -> None:
        """With no world left, any child is one that a rank started and left behind."""
        for pid in _processes.children(os.getpid()):
            if pid not in self._by_pid:
                _processes.kill_tree(pid)

    def _wait_for_all(self) -> None:
        """At the end: SIGKILL is on its way to every rank; give the system a moment for it."""
        until = time.monotonic() + 5
        while self._worlds and time.monotonic() < until:
            self._reap()
            time.sleep(0.002)

    # -- stacks -----------------------------------------------------------------------------

    def _ask_stacks(self, world: _World, number: int, ranks: Sequence[int]) -> None:
        from harness.launch._stack_request import StackRequest  # which needs torch

        request = StackRequest(world.pids, world.stacks, ranks)
        self._asked.append((world, number, request))

    def _answer_stacks(self) -> None:
        for asked in list(self._asked):
            world, number, request = asked
            if id(world) not in self._worlds:
                self._asked.remove(asked)
                continue
            answer = request.answer()
            if answer is not None:
                self._asked.remove(asked)
                world.send(STACKS, number, answer)


def _import_if_there(name: str) -> None:
    with contextlib.suppress(Exception):
        cache = os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
        before = os.path.exists(cache)
        importlib.import_module(name)
        if not before and os.path.exists(cache):
            os.rmdir(cache)  # which torch makes as it is imported; it goes only if it is empty


def _settle() -> None:
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _anonymous_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    return descriptor


def _exec_rank(rank: int, spec: WorldSpec, store: int, descriptors: list[int], stacks: int) -> None:
    """Start the rank as a new interpreter: only so can it have a hash seed of its own."""
    written = _anonymous_file("spec")
    with open(written, "wb", closefd=False) as stream:
        pickle.dump(spec, stream)
    descriptors = [written, store, *descriptors, stacks]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "import harness.launch._server as server; server.exec_main()"
    )
    numbers = [str(n) for n in (rank, *descriptors)]
    environment = {**unmeasured(spec.env), "PYTHONHASHSEED": str(rank + 1)}
    os.execve(sys.executable, [sys.executable, "-c", code, *numbers], environment)


def exec_main() -> None:
    """The entry of a rank that was started as a new interpreter."""
    rank, written, store, sock, out, err, stacks = map(int, sys.argv[1:])
    with open(written, "rb") as stream:
        stream.seek(0)
        spec = pickle.load(stream)
    from harness.launch._rank import rank_main
    from harness.launch._template import Template

    rank_main(rank, spec, store, socket.socket(fileno=sock), out, err, stacks, Template())


def main(descriptor: int, modules: Sequence[str]) -> None:
    """The entry of the server process."""
    requests = socket.socket(fileno=descriptor)
    server = Server(requests)
    gc.disable()  # imports make little garbage, and the first world waits for them
    server.preload(modules)
    gc.enable()
    server.serve()
