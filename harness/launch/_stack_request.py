"""The server's question to ranks for their stacks: first politely, then at once where that is safe.

faulthandler's signal handler walks the frames wherever it strikes. On CPython 3.11 a thread that
just enters a function from C has a frame that is not whole yet, and walking it ends the process: a
rank that makes many small objects died so at one question in a hundred. So a rank is first asked in
a way that it answers between two bytecodes, and faulthandler is for those that come to none: they
are in C code, where no function begins.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence

from harness.launch import _processes
from harness.launch._rank import ASK_SIGNAL, STACKS_SIGNAL

WITHIN = 0.25
"""Seconds for an answer."""

ASLEEP = 0.004
"""A rank that has not answered so many seconds later, and has done nothing since, waits in C."""

BUSY = 0.05
RAN = 0.02
"""One that has run for `RAN` of `BUSY` seconds without coming to a bytecode computes in C."""

LAST = 0.2
"""After so many seconds any rank that sleeps is asked at once, whatever its other threads do."""

DOES_NOTHING = 0.001
STOPPED = "TtZX"


class StackRequest:
    """One question to some ranks of a world, whose ``pids`` lose a rank that ends.

    ``files`` are what the ranks answer to: each appends its stacks to its own.
    """

    def __init__(self, pids: Mapping[int, int], files: Mapping[int, int], ranks: Sequence[int]):
        self._pids, self._files = pids, files
        live = [rank for rank in ranks if rank in pids]
        self._states = {rank: _processes.state_and_cpu(pids[rank]) for rank in live}
        self._before = {rank: os.fstat(files[rank]).st_size for rank in live}
        self._sizes = dict(self._before)
        self._at_once: set[int] = set()
        self._asked = time.monotonic()
        for rank in live:
            if self._states[rank][0] not in STOPPED:
                self._signal(rank, ASK_SIGNAL)

    def answer(self) -> dict[int, tuple[str, float, str]] | None:
        """By rank its state, CPU seconds and stacks; None while it is worth to wait for more.

        A rank that does not answer in time, is stopped or has ended has no stacks.
        """
        passed = time.monotonic() - self._asked
        sizes = {}
        for rank in self._before:
            with contextlib.suppress(OSError):
                sizes[rank] = os.fstat(self._files[rank]).st_size
        silent = [
            rank
            for rank, size in sizes.items()
            if size == self._before[rank]
            and self._states[rank][0] not in STOPPED
            and rank in self._pids
        ]
        growing = [rank for rank, size in sizes.items() if size != self._sizes[rank]]
        self._sizes = sizes
        for rank in silent:
            if rank not in self._at_once and self._is_in_c(rank, passed):
                self._at_once.add(rank)
                self._signal(rank, STACKS_SIGNAL)
        if (silent or growing) and passed < WITHIN:
            return None
        return {rank: (*self._states[rank], self._text(rank, size)) for rank, size in sizes.items()}

    def _is_in_c(self, rank: int, passed: float) -> bool:
        if passed < ASLEEP:
            return False
        state, cpu = _processes.state_and_cpu(self._pids[rank])
        ran = cpu - self._states[rank][1]
        if state and state in "SD":
            return ran < DOES_NOTHING or passed > LAST
        # Without /proc nothing is known but the time.
        return passed > BUSY and (ran > RAN or not state)

    def _text(self, rank: int, size: int) -> str:
        before = self._before[rank]
        with contextlib.suppress(OSError):
            return os.pread(self._files[rank], size - before, before).decode("utf-8", "replace")
        return ""

    def _signal(self, rank: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pids[rank], number)
