"""Point-to-point messages: sends and receives paired in their (group, src, dst, tag) streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import prod

from harness.record import Call
from harness.verdict._text import payload


class Message:
    """One send or receive and, once known, the call at the other end."""

    __slots__ = ("box", "call", "matched", "members", "partner")

    def __init__(self, call: Call, box: Mailbox, members: tuple[int, ...]) -> None:
        self.call = call
        self.box = box
        self.members = members
        self.partner: Message | None = None
        self.matched = False

    @property
    def met(self) -> bool:
        """Whether the other end is posted: the call will complete."""
        return self.matched or self.box.serves(self)

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

    __slots__ = ("anys", "receives", "sends")

    def __init__(self) -> None:
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
    """All point-to-point traffic of a run."""

    def __init__(self) -> None:
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
        message = Message(call, box, members)
        if peer is None:
            box.anys.append(message)
            self._settle(box)
            return message
        src = call.rank if sends else peer
        there = (box.receives if sends else box.sends).get(src)
        if there:
            self._pair(message, there.popleft())
        else:
            (box.sends if sends else box.receives).setdefault(src, deque()).append(message)
            if sends and box.anys:
                self._settle(box)
        return message

    def tidy(self) -> None:
        """Put everything in an order of its own, so that nothing depends on arrival."""
        self.boxes = dict(sorted(self.boxes.items()))
        for box in self.boxes.values():
            box.sends = dict(sorted(box.sends.items()))
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
