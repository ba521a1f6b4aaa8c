"""What a function leaves behind in a rank that the next function would inherit.

The rank compares itself, before its first function and after each, so that a world is used again
only where nothing was left. What a module keeps in its globals cannot be seen from here.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as torch_c10d

from harness.launch import _processes
from harness.launch._rank import CURRENT_TEST
from harness.record._recorder import Recorder

_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD")
)

_OTHERS = (CURRENT_TEST, "TORCHINDUCTOR_CACHE_DIR")
"""Variables that no test has set: the second is set by torch as an optimizer imports the rest of it."""

MOST_NAMED = 5
"""Names of one sort in a description."""


class Surroundings:
    """The state of this rank when it was made, to be compared with."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._group = dist.group.WORLD
        self._environment = _environment()
        self._settings = dict(_settings())

    def left(self) -> tuple[str, ...]:
        """What is not as it was, each in a few words; empty for a rank as good as new."""
        try:
            return self._differences()
        except Exception as error:
            return (f"it cannot be looked at: {type(error).__name__}: {error}",)

    def _differences(self) -> tuple[str, ...]:
        return (
            *self._works(),
            *self._groups(),
            *self._running(),
            *self._variables(),
            *(
                f"{name}: {_text(now)}, it was {_text(self._settings[name])}"
                for name, now in _settings()
                if now != self._settings[name]
            ),
        )

    def _works(self) -> Iterator[str]:
        calls = self._recorder.unwaited()
        if calls:
            yield f"work in flight: {calls}"

    def _groups(self) -> Iterator[str]:
        if dist.group.WORLD is not self._group:
            yield "process group: the default one was destroyed or replaced"
            return
        for group, ranks in torch_c10d._world.pg_group_ranks.items():
            # Of a group that this rank is no member of it has a number only.
            name = getattr(group, "group_name", "")
            if group is not self._group and not name.startswith("mpu-"):
                yield f"process group: one of ranks {sorted(ranks)} was not destroyed"

    def _running(self) -> Iterator[str]:
        main = threading.main_thread()
        # Threads that Python did not start (autograd's) are listed once they have run Python.
        names = [
            each.name
            for each in threading.enumerate()
            if each is not main and not isinstance(each, threading._DummyThread)
        ]
        if names:
            yield f"thread: {_named(names)}"
        if _processes.have_children():
            below = _processes.children(os.getpid())
            yield f"process: {_named([f'{_processes.name(pid)} ({pid})' for pid in below])}"

    def _variables(self) -> Iterator[str]:
        now, before = _environment(), self._environment
        if now == before:
            return
        for what, names in (
            ("set", now.keys() - before.keys()),
            ("removed", before.keys() - now.keys()),
            ("changed", {n for n in now.keys() & before.keys() if now[n] != before[n]}),
        ):
            if names:
                yield f"environment: {_named(sorted(names))} {what}"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OTHERS}


def _settings() -> Iterator[tuple[str, Any]]:
    yield "working directory", _folder()
    yield "default dtype", torch.get_default_dtype()
    yield "default device", torch.get_default_device()
    yield "gradients", torch.is_grad_enabled()
    yield "deterministic algorithms", torch.are_deterministic_algorithms_enabled()
    yield "threads of torch", torch.get_num_threads()
    yield "anomaly detection", torch.is_anomaly_enabled()
    yield "sys.path", tuple(sys.path)
    yield "sys.argv", tuple(sys.argv)
    yield "standard streams", (sys.stdin, sys.stdout, sys.stderr)
    yield "recursion limit", sys.getrecursionlimit()
    yield "signal handlers", tuple(map(signal.getsignal, _SIGNALS))
    root = logging.getLogger()
    yield "log handlers", (root.level, logging.root.manager.disable, tuple(root.handlers))


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "a folder that is gone"


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
