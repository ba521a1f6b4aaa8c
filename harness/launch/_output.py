"""What a rank printed and logged, bounded: the beginning and the end are kept."""

from __future__ import annotations

import re
from collections import deque

HEAD = 16 * 1024
TAIL = 48 * 1024

_OF_GLOO = re.compile(r"^\[Gloo\] Rank \d+ is connected to .*\n", re.MULTILINE)
"""What gloo prints, as of torch 2.8, for each group that connects."""


class Kept:
    """One stream of a rank: at most `HEAD` first and `TAIL` last bytes."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take in more; what falls between head and tail is counted and dropped."""
        room = HEAD - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        data = data[-TAIL:] if self._skip(len(data) - TAIL) else data
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > TAIL:
            excess = self._tail_size - TAIL
            first = self._tail.popleft()
            kept = first[excess:]
            self._dropped += len(first) - len(kept)
            self._tail_size -= len(first) - len(kept)
            if kept:
                self._tail.appendleft(kept)

    def _skip(self, count: int) -> bool:
        self._dropped += max(count, 0)
        return count > 0

    def take(self) -> str:
        """The text so far; begins anew."""
        head = bytes(self._head).decode("utf-8", "replace")
        tail = b"".join(self._tail).decode("utf-8", "replace")
        cut = f"\n… {self._dropped} bytes left out …\n" if self._dropped else ""
        self.__init__()  # type: ignore[misc]
        return _OF_GLOO.sub("", head + cut + tail)
