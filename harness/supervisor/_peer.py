"""One rank as the supervisor sees it: what it sends and prints, and how it ends."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from typing import Any

from harness.launch._coverage import MEASURED
from harness.launch._debugger import DEBUG
from harness.launch._forkserver import RankEnds
from harness.launch._output import Kept
from harness.launch._rank import BROKEN, LEFT, LOG, READY, RESULT
from harness.record import Ended, GroupMade, Record
from harness.record._wire import Decoder, unframe

_NO_RECORDS = frozenset({BROKEN, DEBUG, LEFT, LOG, MEASURED, READY, RESULT})
"""The kinds of messages that are no records; looked up for each record, so that it is cheap."""

_BITE = 1 << 16
_READ = 1 << 18


class Peer:
    """The supervisor's ends of one rank. Nothing here waits."""

    def __init__(self, rank: int, ends: RankEnds) -> None:
        self.rank = rank
        self.sock = ends.sock
        self.streams = {"stdout": ends.out, "stderr": ends.err}
        self.sock.setblocking(False)
        for descriptor in self.streams.values():
            os.set_blocking(descriptor, False)
        self._decoder = Decoder(rank)
        self._buffer = bytearray()
        self._to_send = bytearray()
        self._printed = {name: Kept() for name in (*self.streams, "log")}
        self.ready = False
        self.note = ""
        """What the recorder cannot see in this rank."""
        self.broken = ""
        """Why the rank could not be set up."""
        self.debugging: list[tuple[Any, ...]] = []
        """What its debugger has said, until the supervisor takes it."""
        self.closed: float | None = None
        self.exited = ""
        self.dead = False
        self.left: tuple[str, ...] = ()
        self.groups: list[GroupMade] = []
        self.begin()

    def begin(self, keep: int | None = None) -> None:
        """A function is to run, of which the last ``keep`` records are kept."""
        self.result = b""
        self.ended: Ended | None = None
        self.measured: tuple[Any, ...] | None = None
        self.records: deque[Record] = deque(maxlen=keep)
        self.recorded = 0

    def receive(self) -> list[Record]:
        """The records among what the rank has sent; the rest is kept here."""
        data = received(self.sock)
        if not data:
            if data is not None:
                self.closed = time.monotonic()
            return []
        self._buffer += data
        records = []
        for message in unframe(self._buffer):
            if message[0] in _NO_RECORDS:
                self._hear(message)
                continue
            record = self._decoder.record(message)
            if record is not None:
                records.append(record)
        return records

    def _hear(self, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == RESULT:
            self.result = message[1]
        elif kind == LEFT:
            self.left = message[1]
        elif kind == MEASURED:
            self.measured = message[1:]
        elif kind == DEBUG:
            self.debugging.append(message)
        elif kind == LOG:
            self._printed["log"].add(message[1].encode("utf-8", "replace") + b"\n")
        elif kind == READY:
            self.ready, self.note = True, message[1]
        elif kind == BROKEN:
            self.broken = f"rank {self.rank} could not be set up:\n{message[1]}"

    def keep(self, record: Record) -> None:
        """Keep a record for reports."""
        if isinstance(record, GroupMade):
            self.groups.append(record)
            return
        self.records.append(record)
        self.recorded += 1
        if isinstance(record, Ended):
            self.ended = record

    def send(self, data: bytes = b"") -> bool:
        """Send what has not gone out yet, then ``data``; whether something is left to be sent."""
        self._to_send += data
        try:
            sent = self.sock.send(self._to_send)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._to_send)  # the rank is gone; its end is noticed elsewhere
        del self._to_send[:sent]
        return bool(self._to_send)

    def read_output(self, name: str) -> bytes | None:
        """A bite of what the rank has printed; None if there is nothing now, empty at the end."""
        try:
            data = os.read(self.streams[name], _BITE)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self._printed[name].add(data)
        return data

    def take_output(self) -> dict[str, str]:
        """What was printed and logged since the last time."""
        return {name: kept.take() for name, kept in self._printed.items()}

    def has_died(self, now: float) -> bool:
        """Whether its end is certain, the server has had time to tell how, and it is news."""
        if self.dead or self.closed is None or not (self.exited or now >= self.closed + 1.0):
            return False
        self.dead = True
        return True


def received(sock: socket.socket) -> bytes | None:
    """What has come; None if there is nothing now, empty at the end."""
    try:
        return sock.recv(_READ)
    except BlockingIOError:
        return None
    except OSError:
        return b""
