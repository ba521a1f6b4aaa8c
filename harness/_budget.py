"""How many ranks are up at a time, over all processes of a test run: locks of a file, no daemon.

Each rank in use holds one byte of the file, and the system gives a byte back when the process that
held it ends, however it ends. Who wants ranks draws a number, holds the byte of that number while
it waits, and takes ranks once nobody with a lower number waits: first come, first served, a large
world is not starved by small ones. Who holds ranks already does not wait for more, so that no two
tests with several worlds each can wait for one another; the budget is overdrawn instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import tempfile
import threading
import time

_NUMBER = struct.Struct("<Q")
_RANKS_AT = 1 << 16
_QUEUE_AT = 1 << 32

_NAP = 0.01
_NAME = "pytest-collectives-ranks"

# Locks of the open file, where there are such: those of the process would go as soon as anything
# in it opened and closed the file.
_OPEN_FILE = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
_FLOCK = struct.Struct("hhqqi4x")


class Budget:
    """A share in the ``ranks`` that the processes which open ``file`` may have up together.

    One for each file and process, where the system has no locks of open files.
    """

    def __init__(self, file: str, ranks: int) -> None:
        """Raises OSError if there is no such file, as on another machine."""
        self.ranks = ranks
        if _NAME not in (os.readlink(file) if file.startswith("/proc/") else file):
            raise FileNotFoundError(f"{file} is another process' file")
        self._file = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        self._held: set[int] = set()
        self._one_at_a_time = threading.Lock()

    def close(self) -> None:
        """Give back what is held."""
        os.close(self._file)

    def acquire(self, ranks: int, patience: float = float("inf")) -> Lease:
        """Wait until ``ranks`` ranks may be up besides those of other processes.

        A world larger than the whole budget waits until no other is up. After ``patience``
        seconds the ranks are granted all the same: a test that is slow is better than none.
        """
        with self._one_at_a_time:
            if self._held:
                return Lease(self, self._take(ranks))
            until = time.monotonic() + patience
            wanted = min(ranks, self.ranks)
            number = self._draw()
            try:
                while time.monotonic() < until:
                    if self._first(number):
                        taken = self._take(wanted)
                        if len(taken) == wanted:
                            return Lease(self, taken)
                        self.give_back(taken)
                    time.sleep(_NAP)
                return Lease(self, self._take(wanted))
            finally:
                self._unlock(_QUEUE_AT + number)

    def give_back(self, taken: set[int]) -> None:
        """Let others have these ranks."""
        for each in taken:
            self._unlock(_RANKS_AT + each)
        self._held -= taken

    def _draw(self) -> int:
        self._set(fcntl.F_WRLCK, 0, _NUMBER.size, wait=True)
        try:
            drawn = os.pread(self._file, _NUMBER.size, 0)
            number: int = _NUMBER.unpack(drawn)[0] if len(drawn) == _NUMBER.size else 0
            os.pwrite(self._file, _NUMBER.pack(number + 1), 0)
            self._lock(_QUEUE_AT + number)
        finally:
            self._unlock(0, _NUMBER.size)
        return number

    def _first(self, number: int) -> bool:
        """Whether nobody waits who came before."""
        if number == 0:
            return True
        try:
            self._set(fcntl.F_RDLCK, _QUEUE_AT, number)
        except OSError:
            return False
        self._unlock(_QUEUE_AT, number)
        return True

    def _take(self, ranks: int) -> set[int]:
        taken: set[int] = set()
        for each in range(self.ranks):
            if len(taken) == ranks:
                break
            if each not in self._held:
                with contextlib.suppress(OSError):
                    self._lock(_RANKS_AT + each)
                    taken.add(each)
        self._held |= taken
        return taken

    def _lock(self, byte: int) -> None:
        self._set(fcntl.F_WRLCK, byte)

    def _unlock(self, start: int, length: int = 1) -> None:
        self._set(fcntl.F_UNLCK, start, length)

    def _set(self, kind: int, start: int, length: int = 1, *, wait: bool = False) -> None:
        if _OPEN_FILE:
            command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(self._file, command, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
            return
        flags = {
            fcntl.F_RDLCK: fcntl.LOCK_SH,
            fcntl.F_WRLCK: fcntl.LOCK_EX,
            fcntl.F_UNLCK: fcntl.LOCK_UN,
        }[kind]
        fcntl.lockf(self._file, flags | (0 if wait else fcntl.LOCK_NB), length, start)


class Lease:
    """Ranks that this process may have up."""

    def __init__(self, budget: Budget, taken: set[int]) -> None:
        self._budget = budget
        self._taken = taken

    def release(self) -> None:
        """Give them back; a second call does nothing."""
        taken, self._taken = self._taken, set()
        self._budget.give_back(taken)


class BudgetFile:
    """The file behind a budget, for the process that hands it out; gone when that one ends."""

    def __init__(self) -> None:
        self._temporary = ""
        if hasattr(os, "memfd_create"):
            self._descriptor = os.memfd_create(_NAME)
            self.name = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        else:
            self._descriptor, self.name = tempfile.mkstemp(prefix=_NAME)
            self._temporary = self.name

    def close(self) -> None:
        """Remove the file."""
        os.close(self._descriptor)
        if self._temporary:
            os.unlink(self._temporary)
