"""Worlds that are up and as good as new, kept for whoever asks for the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from harness.supervisor._supervisor import Supervisor
from harness.verdict._text import ranks_text

MOST_IDLE_RANKS = 32
"""Ranks that wait without use; beyond it, the worlds that have waited longest are ended."""


class Pool:
    """Live worlds by what they were asked for. Used by one thread."""

    def __init__(self, most: int = MOST_IDLE_RANKS) -> None:
        self._most = most
        self._kept: list[tuple[Hashable, float, Supervisor]] = []

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: Hashable, timeout: float) -> Supervisor | None:
        """A world whose groups wait for ``timeout`` seconds or longer, if there is one."""
        for entry in reversed(self._kept):
            known, seconds, supervisor = entry
            if known != key or seconds < timeout:
                continue
            self._kept.remove(entry)
            if supervisor.sound:
                return supervisor
            supervisor.close()
        return None

    def give(self, key: Hashable, timeout: float, supervisor: Supervisor) -> None:
        """Keep a world that nobody uses and that nothing was left in."""
        self._kept.append((key, timeout, supervisor))
        while sum(len(each.pids) for _, _, each in self._kept) > self._most:
            self._kept.pop(0)[2].close()

    def close(self) -> None:
        """End all worlds."""
        kept, self._kept = self._kept, []
        for _, _, supervisor in kept:
            supervisor.close()


def leftovers(left: Sequence[Sequence[str]]) -> str:
    """What a function left behind, as a text: each thing with the ranks that it was found on."""
    found: dict[str, list[int]] = {}
    for rank, things in enumerate(left):
        for thing in things:
            found.setdefault(thing, []).append(rank)
    return "; ".join(
        f"{thing} (on {'every rank' if len(ranks) == len(left) else ranks_text(ranks)})"
        for thing, ranks in found.items()
    )
