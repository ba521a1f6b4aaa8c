"""The proof of a deadlock: ranks that wait for one another or for a rank that has ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.record import Stack
from harness.verdict._history import History
from harness.verdict._rank_state import Open
from harness.verdict._streams import Message


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread of ``rank`` is blocked in ``thing`` until ``absent`` ranks do their part.

    All of them have to, except where ``any_of`` says that one is enough.
    """

    rank: int
    stack: Stack
    thing: Open
    absent: tuple[int, ...]
    any_of: bool


def waits_of(history: History, rank: int) -> list[Wait] | None:
    """What each thread of a rank waits for; None when one of them is in user code or gets on."""
    states = history.ranks[rank].waits()
    if states is None:
        return None
    found = []
    for stack, thing in states:
        any_of = isinstance(thing, Message) and thing.from_any
        found.append(Wait(rank, stack, thing, tuple(thing.missing()), any_of))
    return found


def hopeless(history: History, wait: Wait, stuck: Iterable[int]) -> bool:
    """Whether a wait cannot end while ``stuck`` ranks stay where they are."""
    dead = (rank in stuck or history.ranks[rank].over for rank in wait.absent)
    return all(dead) if wait.any_of else any(dead)


def stuck_ranks(history: History, among: Iterable[int]) -> dict[int, list[Wait]]:
    """The largest set of ranks, among those given, that nothing can release.

    Every thread of such a rank waits for a rank of the set or for one that has ended.
    """
    waits: dict[int, list[Wait]] = {}
    for rank in among:
        found = waits_of(history, rank)
        if found:
            waits[rank] = found
    while True:
        free = [
            rank
            for rank, found in waits.items()
            if not all(hopeless(history, wait, waits) for wait in found)
        ]
        if not free:
            return waits
        for rank in free:
            del waits[rank]


def is_stuck(history: History, touched: Iterable[int]) -> bool:
    """Whether a stuck set exists that holds one of the ranks whose state has changed.

    Only those ranks and what they wait for are looked at, which keeps the question cheap.
    """
    seen: set[int] = set()
    blocked: set[int] = set()
    absent: set[int] = set()
    things: set[int] = set()
    frontier = set(touched)
    while frontier:
        rank = frontier.pop()
        seen.add(rank)
        for _, thing in history.ranks[rank].waits() or ():
            blocked.add(rank)
            if id(thing) not in things:
                things.add(id(thing))
                missing = thing.missing()
                absent.update(missing)
                frontier.update(r for r in missing if r not in seen)
    # Most often all that is waited for is in user code, and that is the end of it.
    if absent.isdisjoint(blocked) and not any(history.ranks[rank].over for rank in absent):
        return False
    return bool(stuck_ranks(history, sorted(blocked)))


def cycle_from(history: History, stuck: dict[int, list[Wait]], start: int) -> list[Wait]:
    """Follow waits from ``start`` until a rank comes up again or one that has ended.

    Returns the waits on the way; those of the cycle only, when there is one.
    """
    path: list[Wait] = []
    seen: dict[int, int] = {}
    rank = start
    while rank in stuck:
        if rank in seen:
            return path[seen[rank] :]
        seen[rank] = len(path)
        # A rank of the set first: that is where a cycle is.
        wait = min(stuck[rank], key=lambda w: min((r not in stuck, r) for r in w.absent or (rank,)))
        path.append(wait)
        following = [r for r in wait.absent if r in stuck] or [
            r for r in wait.absent if history.ranks[r].over
        ]
        if not following:
            return path
        rank = min(following)
    return path
