"""Where one rank is: its threads, what they wait for, and what it has in flight."""

from __future__ import annotations

from collections import deque

from harness.record import Call, Creation, Ended, Failed, NativeWait, Stack, Value
from harness.verdict._group_log import Slot
from harness.verdict._signature import UNLIKE
from harness.verdict._streams import Message
from harness.verdict._works import Works

OPEN = 1024


class CreationSlot:
    """One position in the sequence of group creations."""

    __slots__ = ("calls", "index", "local", "members")

    def __init__(self, index: int, members: tuple[int, ...], local: bool) -> None:
        self.index = index
        self.members = members
        self.local = local
        self.calls: dict[int, Creation] = {}

    @property
    def met(self) -> bool:
        """Whether every rank that has to take part does."""
        return len(self.calls) >= len(self.members)

    def missing(self) -> list[int]:
        """The ranks that have not made this creation."""
        return [rank for rank in self.members if rank not in self.calls]

    @property
    def unlike(self) -> bool:
        """Whether the ranks asked for different member lists."""
        return len({call.ranks for call in self.calls.values()}) > 1


Open = Slot | Message | CreationSlot


class RankState:
    """Where the threads of a rank are."""

    __slots__ = (
        "creations",
        "ended",
        "failed",
        "inside",
        "limit",
        "native",
        "open",
        "rank",
        "started",
        "threads",
        "values",
        "works",
    )

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.creations = 0
        self.clear()

    def clear(self) -> None:
        """Forget the run, keep the count of creations."""
        self.started = False
        self.ended: Ended | None = None
        self.inside: tuple[Stack, Open] | None = None
        self.native: NativeWait | None = None
        self.failed: deque[tuple[Failed, Call | Creation | None]] = deque(maxlen=4)
        self.open: dict[int, Open] = {}
        self.limit = OPEN
        self.works = Works()
        self.values: list[Value] = []
        # The record and the thing that a thread is blocked on; None in user code.
        self.threads: dict[int, tuple[Stack, Open] | None] = {0: None}

    def begin(self, number: int, thing: Open) -> None:
        """Keep what the call ``number`` waits for; works that are never waited do not pile up."""
        self.open[number] = thing
        if len(self.open) > self.limit:
            self.open = {n: t for n, t in self.open.items() if n == number or not t.met}
            self.limit = max(OPEN, 2 * len(self.open))

    @property
    def over(self) -> bool:
        """Whether no thread of the rank can make a call any more."""
        return self.ended is not None and not self.threads

    def held_up(self) -> bool:
        """Whether each thread is blocked, be it in a call that met one it does not go with."""
        if not self.threads or not self.started:
            return False
        unlike = (
            state is not None and isinstance(state[1], Slot) and state[1].status == UNLIKE
            for state in self.threads.values()
        )
        return all(unlike) or bool(self.waits())

    def waits(self) -> list[tuple[Stack, Open]] | None:
        """What each thread is blocked on, unmet; None if any is in user code (or will get on)."""
        threads = self.threads
        if not threads or not self.started:
            return None
        if len(threads) == 1 and self.native is None:
            # By far the most common case, asked for again and again.
            (only,) = threads.values()
            return None if only is None or only[1].met else [only]
        found: list[tuple[Stack, Open]] = []
        for thread, state in self.threads.items():
            if state is not None and not state[1].met:
                found.append(state)
            elif thread == 0 and state is None and self.native is not None:
                unmet = [
                    (self.native.stack, open_) for open_ in self.open.values() if not open_.met
                ]
                if not unmet:
                    return None
                found.extend(unmet)
            else:
                return None
        return found
