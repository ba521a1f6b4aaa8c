"""Ranks with gloo groups and the mpu stub, but without our launcher, recorder and supervisor."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn as torch_spawn

from harness import _shipping, mpu
from harness.launch._pickling import dumps
from harness.layout import Layout, Rank
from tests.speed import _forked

W = TypeVar("W", bound=AbstractContextManager[Any])

GROUPS = ("dp", "cp", "dp-cp")
"""What tests of dp × cp code make."""


def become(rank: int, layout: Layout, store: str) -> Rank:
    """Join the default group, make `GROUPS` with ``new_group`` and put them behind the stub."""
    _forked.join(rank, layout.world_size, store)
    mine = _forked.make_groups(layout, GROUPS, rank)

    def made(name: str, ranks: tuple[int, ...]) -> Any:
        if name not in mine:
            raise LookupError(f"the group {name!r} is not made here; there are {', '.join(mine)}")
        return mine[name]

    mpu.install()
    mpu.activate(layout, rank, made)
    return Rank(rank, layout)


class PlainWorld:
    """Forked ranks that stay up and take functions from a pipe; used as `harness.World` is."""

    def __init__(self, dp: int = 1, cp: int = 1) -> None:
        self.layout = Layout(dp, cp)
        self._ranks: _forked.Forked | None = None

    def __enter__(self) -> PlainWorld:
        self._ranks = _forked.Forked(self.layout.world_size, self._serve)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._ranks is not None
        self._ranks.__exit__(kind, error, trace)

    @property
    def pids(self) -> list[int]:
        """The ranks' processes."""
        assert self._ranks is not None
        return self._ranks.pids

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run ``function(rank, *args)`` on every rank; the results in rank order."""
        assert self._ranks is not None
        payload = _shipping.pack(function, args, {}, [])
        for pipe in self._ranks.pipes:
            pipe.send_bytes(payload)
        return self._ranks.results()

    def _serve(self, rank: int, store: str, pipe: Connection) -> None:
        me = become(rank, self.layout, store)
        while True:
            try:
                payload = pipe.recv_bytes()  # ends with the process that forked this one
            except EOFError:
                return
            function, args, kwargs = pickle.loads(payload)
            pipe.send(function(me, *args, **kwargs))


class Kept(Generic[W]):
    """A world factory that keeps its worlds: the same arguments give the same live one."""

    def __init__(self, make: Callable[[int, int], W]) -> None:
        self._make = make
        self._worlds: dict[tuple[int, int], W] = {}

    def __call__(self, dp: int = 1, cp: int = 1) -> AbstractContextManager[W]:
        """Borrow a world; leaving it does not end it."""
        if (dp, cp) not in self._worlds:
            made = self._make(dp, cp)
            made.__enter__()
            self._worlds[dp, cp] = made
        return nullcontext(self._worlds[dp, cp])

    def close(self) -> None:
        """End them all."""
        for world in self._worlds.values():
            world.__exit__(None, None, None)
        self._worlds.clear()


def spawned(rank: int, layout: Layout, store: str, payload: bytes) -> None:
    """The body of a spawned rank: run the function, leave the result in a file."""
    torch.set_num_threads(1)
    me = become(rank, layout, store)
    function, args, kwargs = pickle.loads(payload)
    result = dumps(function(me, *args, **kwargs))
    with open(os.path.join(store, f"result-{rank}"), "wb") as stream:
        stream.write(result)
    dist.destroy_process_group()  # else gloo's threads may abort the process at its end


def spawn(layout: Layout, payload: bytes, within: float) -> list[Any]:
    """Run a packed function on spawned ranks, with a bounded join. Raises TimeoutError."""
    store = tempfile.mkdtemp(prefix="tests-speed-")
    size = layout.world_size
    context: Any = torch_spawn(  # type: ignore[no-untyped-call]
        spawned, args=(layout, store, payload), nprocs=size, join=False
    )
    until = time.monotonic() + within
    try:
        while not context.join(timeout=1):
            if time.monotonic() > until:
                raise TimeoutError(f"the ranks did not end within {within:g} s")
        found = []
        for rank in range(size):
            with open(os.path.join(store, f"result-{rank}"), "rb") as stream:
                found.append(pickle.loads(stream.read()))
        return found
    finally:
        for process in context.processes:
            process.kill()
        shutil.rmtree(store, ignore_errors=True)
