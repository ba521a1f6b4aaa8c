"""The recorder: wraps every collective of this rank, below all of torch's Python.

Kernels under the dispatch key ``BackendSelect`` see each ``c10d::`` operator whoever calls it:
user code, DDP's C++ reducer, FSDP, DTensor, functional collectives, another thread. The record
leaves before the real call is made. Runs in a rank; never imports pytest.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from harness.record import _labels as label
from harness.record import _reduce_ops
from harness.record._arguments import asked_async, given_in, is_phantom, member
from harness.record._detour import Detour
from harness.record._direct import recorded_all_reduce
from harness.record._groups import GroupWatch
from harness.record._inflight import IN_PLACE, InFlight
from harness.record._operations import OPERATIONS, Operation, Reader
from harness.record._stacks import WireFrame, call_site, is_users, user_stack
from harness.record._tensors import Tensors
from harness.record._threads import Threads
from harness.record._wire import CALL, Channel


class Unsupported(RuntimeError):
    """This torch lacks what the recorder hooks into."""


class _Local(threading.local):
    """What the recorder keeps for each thread."""

    inside = False
    """Whether a recorded call is being made: what it calls itself is part of it."""
    number = -1
    """The call whose caller is about to wait for ``work``, unless it is negative."""
    work: Any = None

    def __init__(self) -> None:
        # Shuts the way through the kernels while it is entered, in this thread.
        self.shut: Any = torch._C._ExcludeDispatchKeyGuard(
            torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)
        )


class Recorder:
    """Records the collectives, waits and groups of this rank from ``install`` to ``uninstall``.

    It is installed before the rank is forked, and told which rank it is by ``become``.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.rank = -1
        self._calls = 0
        self._lock = threading.Lock()
        self.local = _Local()
        self.directly = True
        """Whether calls from Python may be recorded without the way through a kernel."""
        self.threads = Threads(channel)
        self._indices: dict[Any, int] = {}
        self._works: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._pending_storages: dict[int, int] = {}
        self.tensors = Tensors()
        self._libraries: list[Any] = []
        self.groups = GroupWatch(self)
        self.detour = Detour()
        self.reduce_ops = _reduce_ops.ReduceOps()
        self.inflight = InFlight(self._touched)
        self._real: list[tuple[Any, str, Any]] = []
        self.on_begin: Callable[[int], None] | None = None
        """Told the number of everything that begins, while the user's code is followed."""

    def become(
        self, rank: int, name_of: Callable[[tuple[int, ...]], str | None], longest: timedelta
    ) -> None:
        """Record for ``rank`` from now on; no group that it makes waits longer than ``longest``."""
        self.rank = rank
        # torch's own checks, which DETAIL asks for, make tensors within the call.
        self.directly = c10d.get_debug_level() != c10d.DebugLevel.DETAIL
        self.threads.begin()
        self.groups.name_of, self.groups.longest = name_of, longest

    # -- installing -------------------------------------------------------------------------

    def install(self) -> None:
        """Hook into torch. Raises `Unsupported` where this torch lacks the dispatch key."""
        try:
            after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
            open_library: Any = torch.library.Library  # untyped in torch
            library = open_library("c10d", "IMPL")
            functional = open_library("_c10d_functional", "IMPL")
        except (AttributeError, RuntimeError) as error:
            raise Unsupported(f"torch {torch.__version__} has no BackendSelect hook") from error
        self._libraries = [library, functional]
        for name, operation in OPERATIONS.items():
            overload = getattr(getattr(torch.ops.c10d, name, None), "default", None)
            if overload is not None:
                kernel = self._kernel(Reader(name, operation, overload._schema), overload, after)
                library.impl(name, kernel, "BackendSelect", with_keyset=True)
        wait_tensor = torch.ops._c10d_functional.wait_tensor.default
        functional.impl(
            "wait_tensor",
            self._wait_tensor_kernel(wait_tensor, after),
            "BackendSelect",
            with_keyset=True,
        )
        self._replace(c10d.Work, "wait", self._work_wait)
        self._replace(c10d.Work, "synchronize", self._work_wait)
        self._replace(c10d.Work, "is_completed", self._work_polled)
        self._replace(c10d.Work, "get_future", self._work_handed_on)
        self._replace(c10d.Work, "_source_rank", self.detour.source_rank)
        if hasattr(c10d.AllreduceOptions, "asyncOp"):
            self._replace(c10d.ProcessGroup, "allreduce", recorded_all_reduce(self))
        if not self.reduce_ops.told:
            self._ask_for_reduce_ops(functional, after)
        self.groups.install()

    def _ask_for_reduce_ops(self, functional: Any, after: Any) -> None:
        for name in _reduce_ops.METHODS:
            self._replace(c10d.ProcessGroup, name, self.reduce_ops.method)
        for overload in _reduce_ops.functional():
            kernel = self.reduce_ops.kernel(overload, after)
            functional.impl(overload, kernel, "BackendSelect", with_keyset=True)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        self.groups.uninstall()
        self.inflight.clear()
        for kind, name, real in reversed(self._real):
            setattr(kind, name, real)
        self._real = []
        for library in self._libraries:
            library._destroy()
        self._libraries = []

    def _replace(self, kind: Any, name: str, around: Callable[[Callable[..., Any]], Any]) -> None:
        self._real.append((kind, name, kind.__dict__[name]))
        setattr(kind, name, around(getattr(kind, name)))

    # -- numbering --------------------------------------------------------------------------

    def next_call(self) -> int:
        """Number what begins now."""
        with self._lock:
            number = self._calls
            self._calls += 1
        if self.on_begin is not None:
            self.on_begin(number)
        return number

    def next_run(self) -> None:
        """Begin counting calls afresh: the supervisor forgets a run that ended well."""
        with self._lock:
            self._indices.clear()
            self._works.clear()
            self._pending_storages.clear()
            self.inflight.clear()

    def unwaited(self) -> int:
        """How many calls were issued that nobody has waited for."""
        registered = getattr(c10d, "_get_work_registry_size", lambda: 0)()
        return max(len(self.inflight), registered)

    # -- recording --------------------------------------------------------------------------

    def _kernel(self, read: Reader, overload: Any, after: Any) -> Callable[..., Any]:
        operation = read.operation
        redispatch = overload.redispatch
        send = self.channel.send
        local = self.local
        # Where the caller is not known to wait, each step is recorded.
        tells_async = read.knows("async_op")
        passes_messages = operation.name in ("send", "recv")

        def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            if local.inside or is_phantom(read, args, kwargs):
                return redispatch(keyset & after, *args, **kwargs)
            local.inside = True
            thread = self.threads.number()
            number, held = -1, ""
            try:
                if tells_async:
                    asynchronous: bool | None = bool(read("async_op", args, kwargs))
                else:
                    asynchronous = asked_async(sys._getframe(1))
                number, held = self._begin(read, operation, args, kwargs, thread, asynchronous)
                if passes_messages:
                    out = self._pass_message(read, overload, keyset & after, args, kwargs)
                else:
                    out = redispatch(keyset & after, *args, **kwargs)
            except BaseException as error:
                if number >= 0:
                    self.failed(number, thread, error)
                raise
            finally:
                local.inside = False
            work = out[-1] if isinstance(out, tuple) else out
            if operation.blocks or work is None:
                send("Finished", number, thread, time.monotonic())
                return out
            if asynchronous is False:
                local.work, local.number = c10d.Work.unbox(work), number
                return out
            local.number = -1
            if held in ("work", "torch"):
                self._remember(c10d.Work.unbox(work), number)
            if held == "work":
                self._watch(read, operation, args, kwargs, number)
            elif held == "tensor":
                for tensor in given_in(read, operation.outputs or operation.inputs, args, kwargs):
                    self._pending_storages[tensor.data_ptr()] = number
            return out

        return kernel

    def _begin(
        self,
        read: Reader,
        operation: Operation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        thread: int,
        asynchronous: bool | None,
    ) -> tuple[int, str]:
        group = c10d.ProcessGroup.unbox(read("process_group", args, kwargs))
        key, ranks = self.groups.known(group)
        peer = root = tag = None
        if operation.root:
            root = member(ranks, read(operation.root, args, kwargs))
        if operation.name in ("send", "recv"):
            tag = read("tag", args, kwargs)
            if operation.peer:
                peer = member(ranks, read(operation.peer, args, kwargs))
            stream: Any = (key, operation.name, peer, tag)
        else:
            stream = key
        reduce_op = None
        if read.knows("reduce_op"):
            reduce_op = self.reduce_ops.name(read("reduce_op", args, kwargs))
        inputs = outputs = ()
        if operation.inputs:
            inputs = self.tensors.described(
                read(operation.inputs, args, kwargs), operation.nested_inputs
            )
        if operation.outputs:
            outputs = self.tensors.described(
                read(operation.outputs, args, kwargs), operation.nested_outputs
            )
        splits_in = splits_out = None
        if operation.input_splits:
            splits_in = tuple(read(operation.input_splits, args, kwargs)) or None
            splits_out = tuple(read(operation.output_splits or "", args, kwargs)) or None
        return self.called(
            sys._getframe(2),
            stream,
            ranks,
            (thread, key),
            (
                operation.name,
                reduce_op,
                root,
                peer,
                tag,
                inputs,
                outputs,
                splits_in,
                splits_out,
                asynchronous,
            ),
        )

    def called(
        self,
        frame: FrameType,
        stream: Any,
        ranks: tuple[int, ...],
        where: tuple[int, str],
        what: tuple[Any, ...],
    ) -> tuple[int, str]:
        """Number a call and send its record; the number, and who holds its work."""
        site, loops = call_site(frame)
        error = sys.exception()
        during = "" if error is None else _under_way(error)
        with self._lock:
            number = self._calls
            self._calls += 1
            index = self._indices.get(stream, 0)
            self._indices[stream] = index + 1
            if self.on_begin is not None:
                self.on_begin(number)  # before the record: that may be the rank's last
            # Sent under the lock: the supervisor must read calls in the order of their numbers.
            self.channel.send_with_stack(
                site.stack,
                CALL,
                number,
                *where,
                index,
                *what,
                time.monotonic(),
                site.from_python,
                label.current(),
                during,
                site.held,
                loops,
                # Before the call is made, since gloo may abort the process there. But nobody waits
                # for anybody in a group of one.
                later=len(ranks) == 1,
            )
        return number, site.held

    def _pass_message(
        self,
        read: Reader,
        overload: Any,
        keyset: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        group = c10d.ProcessGroup.unbox(read("process_group", args, kwargs))
        key, ranks = self.groups.known(group)
        other = self.detour.arguments(read, args, kwargs, ranks, key)
        if other is None:
            return overload.redispatch(keyset, *args, **kwargs)
        out = overload.redispatch(keyset, *other)
        if not read.operation.peer:
            work = c10d.Work.unbox(out)
            self.local.work = work  # kept alive until the caller holds it
            self.detour.received(work, ranks)
        return out

    # -- waiting ----------------------------------------------------------------------------

    def handed_out(
        self, work: Any, number: int, held: str, reads: list[Any], writes: list[Any], name: str
    ) -> None:
        """The caller of an async call has its work, which ``held`` says who holds."""
        self.local.number = -1
        if held in ("work", "torch"):
            self._remember(work, number)
        if held == "work":
            self.inflight.begin(number, name, reads, writes)

    def _remember(self, work: Any, number: int) -> None:
        # Kept alive until the caller holds it: then Python hands out this very object again, and
        # its identity leads from a later wait() back to the call.
        self.local.work = work
        key = id(work)

        def forget(_: Any, key: int = key, number: int = number) -> None:
            entry = self._works.get(key)
            if entry is not None and entry[1] == number:
                del self._works[key]

        self._works[key] = (weakref.ref(work, forget), number)

    def _work_wait(self, real: Callable[..., Any]) -> Callable[..., Any]:
        works = self._works
        local = self.local
        finished = self.channel.finished_later

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if local.inside:
                return real(work, *args, **kwargs)
            number = local.number
            if number >= 0 and local.work is work:
                local.number = -1
                thread = self.threads.number()
            else:
                entry = works.get(id(work))
                if entry is None or entry[0]() is not work:
                    return real(work, *args, **kwargs)
                number = entry[1]
                thread = self.threads.number()
                self.inflight.end(number)
                self._waiting(number, thread)
            try:
                result = real(work, *args, **kwargs)
            except BaseException as error:
                self.failed(number, thread, error)
                raise
            finished(number, thread)
            return result

        return wait

    def _work_polled(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def is_completed(work: Any) -> Any:
            done = real(work)
            if done:
                self._handed_on(work)
            return done

        return is_completed

    def _work_handed_on(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def get_future(work: Any) -> Any:
            self._handed_on(work)
            return real(work)

        return get_future

    def _handed_on(self, work: Any) -> None:
        """User code knows that the work is done, or waits for it by other means."""
        entry = self._works.get(id(work))
        if entry is not None and entry[0]() is work:
            self.inflight.end(entry[1])
            self.channel.send("Finished", entry[1], self.threads.number(), time.monotonic())

    def _watch(
        self,
        read: Reader,
        operation: Operation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        number: int,
    ) -> None:
        given = given_in(read, operation.inputs, args, kwargs)
        written = given_in(read, operation.outputs, args, kwargs)
        if operation.name in IN_PLACE:
            given, written = [], given
        self.inflight.begin(number, operation.name, given, written)

    def _touched(self, number: int, how: str, by: str) -> None:
        stack, _, _ = user_stack(sys._getframe(1))
        self.channel.send_with_stack(
            stack, "Touched", number, self.threads.number(), how, by, time.monotonic()
        )

    def _wait_tensor_kernel(self, overload: Any, after: Any) -> Callable[..., Any]:
        redispatch = overload.redispatch

        def kernel(keyset: Any, tensor: Any) -> Any:
            number = -1
            if type(tensor) is torch.Tensor and tensor.layout is torch.strided:
                number = self._pending_storages.pop(tensor.data_ptr(), -1)
            if number < 0:
                return redispatch(keyset & after, tensor)
            thread = self.threads.number()
            self._waiting(number, thread)
            try:
                out = redispatch(keyset & after, tensor)
            except BaseException as error:
                self.failed(number, thread, error)
                raise
            self.channel.send("Finished", number, thread, time.monotonic())
            return out

        return kernel

    def _waiting(self, number: int, thread: int) -> None:
        stack, _, _ = user_stack(sys._getframe(2))
        self.channel.send_with_stack(stack, "Waiting", number, thread, time.monotonic())

    def failed(self, number: int, thread: int, error: BaseException) -> None:
        """A call, or the wait for it, has raised."""
        with contextlib.suppress(AttributeError):
            error.__harness_call__ = number  # type: ignore[attr-defined]
        self.channel.send(
            "Failed", number, thread, type(error).__name__, str(error)[:4000], time.monotonic()
        )


def call_behind(error: BaseException) -> int | None:
    """The number of the call that raised ``error`` or one of its causes, if one did."""
    seen: BaseException | None = error
    for _ in range(16):
        if seen is None:
            return None
        number: int | None = getattr(seen, "__harness_call__", None)
        if number is not None:
            return number
        seen = seen.__cause__ or seen.__context__
    return None


def _under_way(error: BaseException) -> Any:
    """The exception that is being handled: its text, and the user's frame that it came out of."""
    text = f"{type(error).__name__}: {str(error)[:200]}"
    place: WireFrame | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            place = code.co_filename, trace.tb_lineno, code.co_qualname
        trace = trace.tb_next
    return text if place is None else (text, place)
