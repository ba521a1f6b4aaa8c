"""Point-to-point messages: sends and receives paired in their (group, src, dst, tag) streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import prod

from harness.record import Call
from harness.verdict._text import payload

KEPT = 256
MEETINGS = frozenset(
    {"barrier", "all_reduce", "all_gather", "all_gather_into_tensor", "all_to_all"}
)
"""No member leaves these before all have come."""


class Message:
    """One send or receive and, once known, the call at the other end."""

    __slots__ = ("box", "buffered", "call", "finished", "matched", "members", "partner")

    def __init__(
        self, call: Call, box: Mailbox, members: tuple[int, ...], buffered: bool = False
    ) -> None:
        self.call = call
        self.buffered = buffered
        self.finished: float | None = None
        self.box = box
        self.members = members
        self.partner: Message | None = None
        self.matched = False

    @property
    def met(self) -> bool:
        """Whether the other end is posted (or not needed): the call will complete."""
        return self.matched or self.buffered or self.box.serves(self)

    def missing(self) -> list[int]:
        """Who could post the other end: one rank, or (receive from any source) any of several."""
        if self.call.peer is not None:
            return [self.call.peer]
        return [rank for rank in self.members if rank != self.call.rank]

    @property
    def from_any(self) -> bool:
        """Whether this is a receive that takes a message from any rank."""
        return self.call.op == "recv" and self.call.peer is None


class Mailbox:
    """What is under way to one rank, in one group, with one tag."""

    __slots__ = ("any_receives", "any_sends", "anys", "receives", "sends")

    def __init__(self) -> None:
        self.any_receives: list[Message] = []
        """The first receives from any source, completed ones too."""
        self.any_sends: list[Message] = []
        """The first sends that these may have taken."""
        self.sends: dict[int, deque[Message]] = {}
        self.receives: dict[int, deque[Message]] = {}
        self.anys: deque[Message] = deque()

    def waiting(self) -> Iterator[Message]:
        """Everything unpaired, sends first; what receives from any source take is left out."""
        pool = self._pool()
        yield from pool[len(self.anys) :]
        for receives in self.receives.values():
            yield from receives
        yield from list(self.anys)[len(pool) :]

    def serves(self, message: Message) -> bool:
        """Whether a receive from any source takes part in this message's completion.

        Receives from any source take the earliest sends that no other receive has claimed.
        """
        if not self.anys:
            return False
        pool = self._pool()
        if message.from_any:
            return any(message is taking for taking in list(self.anys)[: len(pool)])
        return any(message is send for send in pool[: len(self.anys)])

    def _pool(self) -> list[Message]:
        unclaimed = [send for sends in self.sends.values() for send in sends]
        return sorted(unclaimed, key=lambda m: (m.call.time, m.call.rank, m.call.call))


class Streams:
    """All point-to-point traffic of a run.

    By contract a send may block until its receive is posted; with ``buffered`` none ever does.
    """

    def __init__(self, buffered: bool = False) -> None:
        self._buffered = buffered
        self.any_used = False
        self.meetings: list[dict[int, Call]] = []
        """Collectives that all members have made, since the first receive from any source."""
        self.boxes: dict[tuple[str, int, int], Mailbox] = {}
        self.unlike: list[tuple[Call, Call]] = []

    def add(self, call: Call, members: tuple[int, ...]) -> Message:
        """Take in a send or a receive; pair it when its other end is waiting."""
        sends = call.op == "send"
        peer = call.peer
        owner = peer if sends and peer is not None else call.rank
        where = (call.group, owner, call.tag or 0)
        box = self.boxes.get(where)
        if box is None:
            box = self.boxes[where] = Mailbox()
        message = Message(call, box, members, sends and self._buffered)
        if peer is None:
            if not box.any_receives:
                self.any_used = True
                box.any_sends += [send for sends in box.sends.values() for send in sends]
            if len(box.any_receives) < KEPT:
                box.any_receives.append(message)
            box.anys.append(message)
            self._settle(box)
            return message
        src = call.rank if sends else peer
        there = (box.receives if sends else box.sends).get(src)
        if there:
            self._pair(message, there.popleft())
        else:
            (box.sends if sends else box.receives).setdefault(src, deque()).append(message)
            if sends and box.any_receives and len(box.any_sends) < KEPT:
                box.any_sends.append(message)
            if sends and box.anys:
                self._settle(box)
        return message

    def synchronised(self, calls: dict[int, Call]) -> None:
        """All members of a group have made a collective that keeps them together."""
        if len(self.meetings) < KEPT and next(iter(calls.values())).op in MEETINGS:
            self.meetings.append(dict(calls))

    def tidy(self) -> None:
        """Put everything in an order of its own, so that nothing depends on arrival."""
        self.boxes = dict(sorted(self.boxes.items()))
        for box in self.boxes.values():
            box.sends = dict(sorted(box.sends.items()))
            box.any_sends.sort(key=lambda m: (m.call.time, m.call.rank, m.call.call))
            box.receives = dict(sorted(box.receives.items()))
        self.unlike.sort(key=lambda pair: (pair[0].time, pair[1].time))

    def _pair(self, a: Message, b: Message) -> None:
        a.matched = b.matched = True
        a.partner, b.partner = b, a
        send, receive = (a.call, b.call) if a.call.op == "send" else (b.call, a.call)
        if message_detail(send, receive):
            self.unlike.append((send, receive))

    def _settle(self, box: Mailbox) -> None:
        """When receives from any source and unclaimed sends are as many, all are accounted for."""
        unclaimed = sum(map(len, box.sends.values()))
        if unclaimed == len(box.anys) and not any(box.receives.values()):
            for sends in box.sends.values():
                for send in sends:
                    send.matched = True
                sends.clear()
            for message in box.anys:
                message.matched = True
            box.anys.clear()


def message_detail(send: Call, receive: Call) -> str:
    """``"dtype"`` or ``"numel"`` where what is sent and what is received differ, else empty."""
    out, into = payload(send), payload(receive)
    if [t.dtype for t in out] != [t.dtype for t in into]:
        return "dtype"
    if sum(prod(t.shape) for t in out) != sum(prod(t.shape) for t in into):
        return "numel"
    return ""
