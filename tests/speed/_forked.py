"""Bare ranks: forked from a process that has torch, and no more than has to be. The floor."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from harness.launch._processes import die_with_parent
from harness.layout import Layout

WITHIN = 60.0

_open: set[Connection] = set()
"""This process' ends of all ranks' pipes; a rank that held one would hide that it was closed."""


def prepare() -> None:
    """What the forking process does once: its pages are shared with every rank."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def join(rank: int, size: int, store: str) -> None:
    """Join the default gloo group over a file."""
    dist.init_process_group(
        "gloo",
        store=FileStore(os.path.join(store, "rendezvous"), size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=WITHIN),
    )


def make_groups(layout: Layout, names: tuple[str, ...], rank: int) -> dict[str, Any]:
    """Make the groups of those names, by every rank in one order; those that this rank is in."""
    mine = {}
    for name in names:
        for ranks in layout.groups(name):
            made = dist.new_group(list(ranks))
            if rank in ranks:
                mine[name] = made
    return mine


class Forked:
    """``size`` forked ranks that each run ``body(rank, store, pipe)`` and end."""

    def __init__(self, size: int, body: Callable[[int, str, Connection], None]) -> None:
        self.store = tempfile.mkdtemp(prefix="tests-speed-")
        self.pids: list[int] = []
        self.pipes: list[Connection] = []
        for rank in range(size):
            ours, theirs = Pipe()
            pid = os.fork()
            if not pid:
                ours.close()
                _rank(rank, self.store, body, theirs)
            theirs.close()
            self.pids.append(pid)
            self.pipes.append(ours)
            _open.add(ours)

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in self.pipes:
            pipe.close()
            _open.discard(pipe)
        for pid in self.pids:
            if kind is not None:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # bounded by the one who asked this process
        shutil.rmtree(self.store, ignore_errors=True)

    def results(self, within: float = WITHIN) -> list[Any]:
        """What each rank sends next. Raises TimeoutError, or what a rank raised."""
        until = time.monotonic() + within
        found = []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(max(0.0, until - time.monotonic())):
                raise TimeoutError(f"rank {rank} gave no result within {within:g} s")
            found.append(pipe.recv())
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return found


def _rank(
    rank: int,
    store: str,
    body: Callable[[int, str, Connection], None],
    pipe: Connection,
) -> NoReturn:
    try:
        die_with_parent()
        for other in _open:
            other.close()
        try:
            body(rank, store, pipe)
        except BaseException as error:
            pipe.send(error)
    finally:
        os._exit(0)
