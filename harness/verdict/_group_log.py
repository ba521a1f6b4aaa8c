"""The collectives of one process group, position by position.

Positions that all members have passed alike are forgotten; what is kept of them is how often each
line was passed and which line came after which. Stretches of unlike positions are kept until they
close.
"""

from __future__ import annotations

import sys
from collections import deque

from harness.record import Call
from harness.verdict._signature import ALIKE, PAIRWISE, SUSPECT, UNLIKE, alike, base_op, compare
from harness.verdict._sites import Lines, lines, same_place

CALM = 64
"""So many like positions after an unlike one close that stretch: it is judged and forgotten."""
STRETCH = 1024
RECENT = 8
PLACES = 4096


class Slot:
    """One position of a group's sequence: the call that each member made there."""

    __slots__ = ("calls", "index", "lead", "log", "same", "status")

    def __init__(self, log: GroupLog, index: int, lead: Call) -> None:
        self.log = log
        self.index = index
        self.lead = lead
        self.calls: dict[int, Call] = {}
        self.status = ALIKE
        self.same = True

    @property
    def met(self) -> bool:
        """Whether all members have made this call: nobody waits in it for ever."""
        return len(self.calls) == self.log.size

    @property
    def one_place(self) -> bool:
        """Whether the calls go together and come from one place, whatever the loop values."""
        return self.same or (
            self.status == ALIKE
            and all(same_place(call.stack, self.lead.stack) for call in self.calls.values())
        )

    def missing(self) -> list[int]:
        """The members that have not made it."""
        return [rank for rank in self.log.ranks if rank not in self.calls]


class GroupLog:
    """The collectives of one process group."""

    __slots__ = (
        "base",
        "calm",
        "closed",
        "count",
        "done",
        "floor",
        "follows",
        "key",
        "made_at",
        "name",
        "previous",
        "raced",
        "ranks",
        "recent",
        "size",
        "slots",
        "suspect",
        "threads",
        "unlike",
    )

    def __init__(self, key: str, ranks: tuple[int, ...], name: str) -> None:
        self.key = key
        self.ranks = ranks
        self.size = len(ranks)
        self.name = name
        self.clear()

    def clear(self) -> None:
        """Forget the calls, keep the group."""
        self.base = self.done = self.calm = 0
        self.floor = sys.maxsize
        """What the first member to end has made: nobody may make more."""
        self.slots: deque[Slot] = deque()
        self.count: dict[int, int] = dict.fromkeys(self.ranks, 0)
        self.recent: deque[Call] = deque(maxlen=RECENT)
        self.previous: Lines | None = None
        self.follows: dict[Lines, set[Lines]] = {}
        self.made_at: dict[tuple[str, Lines], int] = {}
        self.unlike: Slot | None = None
        self.suspect: Slot | None = None
        self.closed: list[tuple[Slot, ...]] = []
        self.threads: dict[int, dict[int, Call]] = {}
        """For each rank the threads that call on this group, each with its first call."""
        self.raced: dict[int, tuple[Call, Call]] = {}
        """Calls of two threads of one rank that were under way at once, for each such rank."""

    def add(self, call: Call) -> Slot:
        """Take in a member's next collective."""
        rank = call.rank
        position = self.count.get(rank, 0)
        self.count[rank] = position + 1
        place = position - self.base
        if place == len(self.slots):
            slot = Slot(self, position, call)
            self.slots.append(slot)
        else:
            slot = self.slots[place]
            lead = slot.lead
            status = alike(lead, call)
            if status > slot.status:
                slot.status = status
            if slot.same and not (
                status == ALIKE
                and (lead.stack is call.stack or lead.stack == call.stack)
                and lead.label == call.label
            ):
                slot.same = False
        slot.calls[rank] = call
        if call.op != "barrier" and base_op(call.op) in PAIRWISE and slot.status != UNLIKE:
            found = compare(slot.calls, self.ranks)
            if found is not None:
                slot.status = UNLIKE
                slot.same = False
        if slot.status == UNLIKE and (self.unlike is None or position < self.unlike.index):
            self.unlike = slot
        return slot

    def passed(self, slot: Slot) -> bool:
        """All members have made the call: remember its place, forget what was alike.

        True when a stretch of unlike positions has ended and should be judged.
        """
        self.done = slot.index + 1
        if slot.status == SUSPECT and self.suspect is None:
            self.suspect = slot
        if slot.same:
            self._remember(slot.lead)
            if self.slots[0] is slot:
                self.slots.popleft()
                self.base += 1
                self.recent.append(slot.lead)
                return False
            self.calm += 1
        elif slot.one_place:
            self._remember(slot.lead)
            self.calm = 0
        else:
            self.previous = None
            self.calm = 0
        return self.calm >= CALM or self.done - self.base >= STRETCH

    def close_stretch(self) -> tuple[Slot, ...]:
        """Take out the completed positions that were kept, to be judged now."""
        stretch = tuple(self.slots.popleft() for _ in range(self.done - self.base))
        self.base = self.done
        self.calm = 0
        self.recent.extend(slot.lead for slot in stretch[-RECENT:])
        return stretch

    def _remember(self, call: Call) -> None:
        here = lines(call.stack)
        place = (call.op, here)
        made_at = self.made_at
        if place in made_at:
            made_at[place] += 1
        elif len(made_at) < PLACES:
            made_at[place] = 1
        if self.previous is not None:
            followers = self.follows.get(self.previous)
            if followers is not None:
                followers.add(here)
            elif len(self.follows) < PLACES:
                self.follows[self.previous] = {here}
        self.previous = here

    def tidy(self) -> None:
        """Put the calls of each position in rank order, so that nothing depends on arrival."""
        for slot in (*self.slots, *(slot for stretch in self.closed for slot in stretch)):
            slot.calls = dict(sorted(slot.calls.items()))
            slot.lead = next(iter(slot.calls.values()))

    def sequence(self, rank: int) -> list[Call]:
        """The calls of a member that are still known, from position ``base`` on."""
        return [slot.calls[rank] for slot in self.slots if rank in slot.calls]
