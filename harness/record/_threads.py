"""The threads of a rank that make calls: numbered by first sight, and noticed when they end."""

from __future__ import annotations

import threading
import time

from harness.record._wire import Channel


class _Guard:
    """Lives in a thread's local storage, which goes when the thread does."""

    def __init__(self, threads: Threads, ident: int, number: int) -> None:
        self._of = threads, ident, number

    def __del__(self) -> None:
        threads, ident, number = self._of
        threads.ended(ident, number)


class Threads:
    """Gives the calling thread its number: 0 for the main thread of the rank."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._local = threading.local()
        self._numbered = 1
        self._known: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        """The calling thread is the main one."""
        self._known = {threading.get_ident(): 0}

    def number(self) -> int:
        """The number of the calling thread."""
        ident = threading.get_ident()
        number = self._known.get(ident)
        if number is None:
            with self._lock:
                number = self._numbered
                self._numbered += 1
                # An ident may come again with another thread: the entry goes with the thread.
                self._known[ident] = number
            self._local.guard = _Guard(self, ident, number)
        return number

    def ended(self, ident: int, number: int) -> None:
        """A thread is over that has made calls."""
        if self._known.get(ident) == number:
            del self._known[ident]
            self._channel.send("ThreadEnded", number, time.monotonic())

    def live(self) -> tuple[int, ...]:
        """The numbers of the threads, other than the main one, that made calls and still run."""
        alive = {thread.ident for thread in threading.enumerate()}
        return tuple(n for ident, n in self._known.items() if n and ident in alive)
