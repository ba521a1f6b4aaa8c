"""What runs inside a rank's process, from the fork to the last function.

Contract: it is called once in a fresh child of the server, with its three descriptors, and never
returns. It imports no pytest. It talks to the supervisor through one socket: records and results
out, functions in. When the socket closes, the rank ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import logging
import os
import pickle
import random
import resource
import signal
import socket
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from harness.launch import _outcomes, _processes
from harness.launch._assertions import enrich_comparisons
from harness.launch._coverage import MEASURED, Measurement
from harness.launch._debugger import Debugger
from harness.launch._pickling import dumps
from harness.launch._spec import WorldSpec
from harness.record._wire import unframe

if TYPE_CHECKING:
    from harness.launch._surroundings import Surroundings
    from harness.launch._template import Template
    from harness.record._stacks import WireStack
    from harness.record._wire import Channel

READY, RESULT, LOG, BROKEN, RUN, LEFT = "ready", "result", "log", "broken", "run", "left"

MESSAGES = ("pp", "cp")
"""Groups over which code sends and receives: pipelines and context-parallel rings."""

CURRENT_TEST = "PYTEST_CURRENT_TEST"
"""pytest's variable; it comes with each function, for a world may outlive a test."""

_LINUX = sys.platform == "linux"
ASK_SIGNAL = signal.SIGRTMAX - 2 if _LINUX else signal.SIGUSR1
STACKS_SIGNAL = signal.SIGRTMAX - 1 if _LINUX else signal.SIGUSR2
"""The server sends them to ask a rank for the stacks of its threads.

The first is answered between two bytecodes, thus by a rank that runs Python code. The second is
answered at once, which a rank that begins a function at that moment would not survive: its frames are
not whole then (CPython 3.11). So it is for ranks that do not answer the first: they are in C code.
"""


_LIBRARY_C = ctypes.CDLL(None)


def rank_main(
    rank: int,
    spec: WorldSpec,
    store: int,
    sock: socket.socket,
    out: int,
    err: int,
    stacks: int,
    template: Template,
) -> NoReturn:
    """Become rank ``rank`` of the world: set up, then run what is sent until it is killed."""
    code = 1
    try:
        _processes.die_with_parent()
        _own_streams(out, err)
        faulthandler.enable(file=sys.stderr, all_threads=True)
        _answer_stacks(stacks)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit_open_files(spec.open_files)
        channel = template.recorder.channel
        channel.open(sock)
        try:
            body = _Rank(rank, spec, store, template)
        except BaseException as error:
            channel.send(BROKEN, _outcomes.traceback_text(error))
            raise
        body.serve(sock)
        code = 0
    except BaseException as error:
        if not isinstance(error, (SystemExit, KeyboardInterrupt)):
            with contextlib.suppress(Exception):
                sys.stderr.write(_outcomes.traceback_text(error))
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _answer_stacks(stacks: int) -> None:
    def stacks_as_asked(*_: object) -> None:
        with contextlib.suppress(Exception):
            faulthandler.dump_traceback(file=stacks, all_threads=True)

    signal.signal(ASK_SIGNAL, stacks_as_asked)
    signal.siginterrupt(ASK_SIGNAL, False)
    faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True, chain=False)


def _limit_open_files(asked: int) -> None:
    """As many as pytest may have open; the server, which this process comes from, raised its limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if asked > 0 and (most == resource.RLIM_INFINITY or asked < most):
        resource.setrlimit(resource.RLIMIT_NOFILE, (asked, most))


def _own_streams(out: int, err: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in {null, out, err} - {0, 1, 2}:
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False))
    # Line by line, so that what a rank printed before it was killed is there.
    sys.stdout = _line_writer(1)
    sys.stderr = _line_writer(2)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))


def _line_writer(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


class _LogHandler(logging.Handler):
    """Sends each log record of the rank, formatted, to the supervisor."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self.setFormatter(
            logging.Formatter("%(levelname)-8s %(name)s:%(filename)s:%(lineno)d %(message)s")
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; like every handler, never fail the code that logs."""
        try:
            self._channel.send(LOG, self.format(record)[:10_000])
        except Exception:
            self.handleError(record)


class _Rank:
    """One rank of a live world."""

    def __init__(self, rank: int, spec: WorldSpec, store: int, template: Template) -> None:
        import torch
        import torch.distributed as dist

        from harness import mpu
        from harness.launch._store import SharedStore
        from harness.layout import Rank

        self.spec = spec
        self._template = template
        self.channel = channel = template.recorder.channel
        self.rank = Rank(rank, spec.layout)
        self._store = SharedStore(store, spec.layout.world_size)
        if spec.debug_rank is not None:
            self._store.set_timeout(self._timeout)
        self._measurement = Measurement()
        self._measures = False
        self._runs = 0
        self._surroundings: Surroundings | None = None
        device = torch._C._distributed_c10d.ProcessGroupGloo.create_default_device
        self._can_be_lazy = "lazy_init" in (device.__doc__ or "")
        self._lazily = True
        # Messages on groups that connect at their first use need the recorder.
        self._has_detour = self._can_be_lazy and spec.record and not template.unrecorded
        self._torch, self._dist, self._mpu = torch, dist, mpu
        size = spec.layout.world_size
        own_hash_seed = {n: v for n, v in os.environ.items() if n == "PYTHONHASHSEED"}
        os.environ.clear()
        os.environ.update(spec.env)
        if spec.hash_seed:
            os.environ.update(own_hash_seed)
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(size),
            LOCAL_WORLD_SIZE=str(size),
            GROUP_RANK="0",
            # As torchrun sets them. Nothing listens there: the rendezvous is a file.
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT="29500",
        )
        from torch._C._distributed_c10d import set_debug_level_from_env

        set_debug_level_from_env()  # torch read the server's when it was imported
        os.chdir(spec.cwd)
        sys.path[:] = spec.path
        sys.argv = list(spec.argv)
        torch.set_num_threads(spec.threads)
        self._seed()
        root = logging.getLogger()
        root.addHandler(_LogHandler(channel))
        if spec.log_level is not None:
            root.setLevel(spec.log_level)
        self.installation = template.install_mpu(spec)
        enrich_comparisons(spec.verbosity)
        self.recorder = template.recorder
        self.recorder.become(rank, spec.layout.name_of, self._timeout)
        self._values = template.values
        if spec.record:
            self._values.attach(self.recorder)
        else:
            self.recorder.uninstall()
        self._init_process_group()
        if spec.record:
            self.recorder.groups.announce(dist.group.WORLD, "world")
        self._activate_mpu()
        channel.send(READY, template.unrecorded if spec.record else "")

    @property
    def _timeout(self) -> timedelta:
        return timedelta(seconds=self.spec.timeout)

    def _seed(self) -> None:
        seed = self.spec.seed + int(self.rank)
        random.seed(seed)
        self._template.seed(seed)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(seed % 2**32)

    def _init_process_group(self) -> None:
        from torch._C._distributed_c10d import PrefixStore

        size = self.spec.layout.world_size
        self._dist.init_process_group(
            "gloo",
            store=PrefixStore(f"run-{self._runs}", self._store),
            rank=int(self.rank),
            world_size=size,
            timeout=self._timeout,
        )

    def _activate_mpu(self) -> None:
        if self.installation.is_real:
            from megatron.core import parallel_state

            layout = self.spec.layout
            parallel_state.initialize_model_parallel(
                tensor_model_parallel_size=layout.tp,
                pipeline_model_parallel_size=layout.pp,
                context_parallel_size=layout.cp,
                expert_model_parallel_size=layout.ep,
                expert_tensor_parallel_size=layout.etp,
                order=layout.order,
            )
        # With the real Megatron too: rank.group() hands out groups of the harness's own.
        self._mpu.activate(self.spec.layout, int(self.rank), self._make_group)
        if self._has_detour:
            return
        # Connected now, by all ranks in one order.
        self._lazily = False
        for name in MESSAGES if self._can_be_lazy else self.spec.layout.group_names():
            if len(self.spec.layout.group_of(name, int(self.rank))) > 1:
                self._mpu.live_group(name)
        self._lazily = True

    def _make_group(self, name: str, ranks: tuple[int, ...]) -> Any:
        """Make a gloo group of ``ranks``, alone and at once: a getter waits for no other rank.

        It connects at its first collective (``TORCH_GLOO_LAZY_INIT``, which gloo reads each time);
        its messages go over the default group.
        """
        from torch.distributed import distributed_c10d as torch_c10d

        dist = self._dist
        _, default_store = torch_c10d._world.pg_map[dist.group.WORLD]
        make: Any = torch_c10d._new_process_group_helper
        before = os.environ.get("TORCH_GLOO_LAZY_INIT")
        os.environ["TORCH_GLOO_LAZY_INIT"] = "1" if self._lazily else "0"
        try:
            made, _ = make(
                len(ranks),
                ranks.index(int(self.rank)),
                list(ranks),
                dist.Backend("gloo"),
                default_store,
                f"mpu-{name}-{'-'.join(map(str, ranks))}",
                timeout=self._timeout,
                group_desc=name,
            )
        finally:
            del os.environ["TORCH_GLOO_LAZY_INIT"]
            if before is not None:
                os.environ["TORCH_GLOO_LAZY_INIT"] = before
        torch_c10d._world.pg_group_ranks[made] = {r: i for i, r in enumerate(ranks)}
        plain, _, generation = name.partition("#")
        self.recorder.groups.announce(made, plain)
        if self._has_detour:
            self.recorder.detour.add(made.group_name, self._number_of(plain, generation))
        return made

    def _number_of(self, name: str, generation: str) -> int:
        """A number that tells the groups apart which two ranks may share."""
        names = self.spec.layout.group_names()
        suffixes = ("", *self._mpu.TWIN_SUFFIXES)
        for place, suffix in enumerate(suffixes):
            bare = name.removesuffix(suffix)
            if bare in names and name == bare + suffix:
                kind = place * len(names) + names.index(bare)
                return kind + len(suffixes) * len(names) * (int(generation or 1) - 1)
        raise AssertionError(f"a group of no known name: {name}")

    # -- running ----------------------------------------------------------------------------

    def serve(self, sock: socket.socket) -> None:
        """Run functions as they come, until the socket ends."""
        buffer = bytearray()
        self._debugger = Debugger(int(self.rank), self.spec.debug_rank, self.channel, sock)
        self._debugger.install()
        while True:
            data = sock.recv(1 << 20)  # ends with the supervisor: its death closes the socket
            if not data:
                return
            buffer += data
            for _, *order in unframe(buffer):
                self._run(*order)

    def _run(
        self, payload: bytes, test: str, afresh: bool, watched: bool, measure: bytes = b""
    ) -> None:
        if test:
            os.environ[CURRENT_TEST] = test
        if afresh:
            self._seed()
        if self._runs:
            self.recorder.next_run()
            self._mpu.reset()
            if not self._dist.is_initialized():
                # The last function destroyed the default group, as scripts do at their end.
                self._mpu.deactivate()
                self._init_process_group()
                self.recorder.groups.announce(self._dist.group.WORLD, "world")
                self._activate_mpu()
        self._runs += 1
        if watched and self._surroundings is None:
            self._surroundings = self._template.surroundings(self.recorder)
        self._values.forget_kept()
        # What traces for itself (a debugger, the explainer) and coverage.py exclude each other.
        traced = self.spec.trace is not None or self.spec.debug_rank == int(self.rank)
        self._measures = bool(measure) and not traced
        if self._measures:
            self._measurement.start(measure)
        try:
            function, args, kwargs = pickle.loads(payload)
            with self._followed():
                result = _call(function, self.rank, args, kwargs)
                self._debugger.function_ended()
            self._values.compare_kept()
            try:
                data = dumps(result)
            except Exception as error:
                what = f"its result, a {type(result).__name__}, cannot be sent back: {error}"
                raise TypeError(f"{what}. Return plain values or tensors.") from error
        except BaseException as error:
            self._debugger.post_mortem(error)
            self._debugger.function_ended()
            self._flush()
            self._ended_badly(error)
            return
        self._flush()
        self.channel.send_later(RESULT, data)
        self._ended("returned")

    def _followed(self) -> contextlib.AbstractContextManager[None]:
        """Follow the function step by step, if this is the run to be explained."""
        plan = self.spec.trace
        if plan is None or plan.run != self._runs:
            return contextlib.nullcontext()
        from harness.explain._tracer import following

        return following(plan, int(self.rank), self.recorder)

    def _flush(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        _LIBRARY_C.fflush(None)  # what C code printed

    def _ended_badly(self, error: BaseException) -> None:
        from harness.record._recorder import call_behind
        from harness.record._stacks import is_users

        pickled = b""
        with contextlib.suppress(Exception):
            pickled = dumps(error)
        self.channel.send_later(RESULT, pickled)
        self._ended(
            _outcomes.outcome(error),
            type(error).__name__,
            _outcomes.message_of(error),
            _outcomes.traceback_text(error),
            _outcomes.users_frames(error, is_users),
            call_behind(error),
        )

    def _ended(
        self,
        how: str,
        error: str = "",
        message: str = "",
        trace: str = "",
        stack: WireStack = (),
        inside: int | None = None,
    ) -> None:
        if self._measures:
            self.channel.send_later(MEASURED, *self._measurement.stop())
        if self._surroundings is not None:
            self.channel.send_later(LEFT, self._surroundings.left())
        threads = self.recorder.threads.live()
        self.channel.send_with_stack(
            stack, "Ended", how, time.monotonic(), error, message, trace, inside, threads
        )


def _call(function: Any, rank: Any, args: Any, kwargs: Any) -> Any:
    return function(rank, *args, **kwargs)
