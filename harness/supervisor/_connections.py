"""What connects the supervisor with one world: sockets, output and orders, read by one thread.

Records are read before output, and output in bounded bites, so that no flood of either delays a
verdict or blocks a rank. Nothing here waits but `Connections.take_in`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from harness.launch._forkserver import Launched
from harness.record import Record
from harness.record._wire import frame, unframe
from harness.supervisor._peer import Peer, received

GATHER = 0.01
"""Seconds for which things are left to gather, where there are many."""


class Listener(Protocol):
    """Who is told what has been read."""

    def on_rank(self, peer: Peer, records: list[Record]) -> None:
        """A rank has sent something; what is no record is kept by ``peer``."""

    def on_server(self, message: tuple[Any, ...]) -> None:
        """The server has sent something."""

    def on_server_closed(self) -> None:
        """The server has ended."""

    def on_printed(self, peer: Peer, data: bytes) -> None:
        """A rank has printed something."""


class Connections:
    """The ends of one world in this process. Only `order` may be called by any thread."""

    def __init__(self, launched: Launched, listener: Listener) -> None:
        self._launched = launched
        self._listener = listener
        self._from_server = bytearray()
        self.peers = [Peer(rank, ends) for rank, ends in enumerate(launched.ranks)]
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        launched.control.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._watch(self._wake_read, self._follow_orders)
        self._watch(launched.control, self._read_server)
        for peer in self.peers:
            self._watch(peer.sock, partial(self._read_rank, peer))
            for name, descriptor in peer.streams.items():
                self._watch(descriptor, partial(self._read_output, peer, name))

    def _watch(self, fileobj: Any, read: Callable[[], object]) -> None:
        self._selector.register(fileobj, selectors.EVENT_READ, read)

    def close(self) -> None:
        """Close every end; the server kills what still runs."""
        self._selector.close()
        self._launched.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def order(self, order: Callable[[], None]) -> None:
        """Have the thread do something."""
        self._orders.put(order)
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"!")

    def take_in(self, patience: float, *, many: bool = False, orders: bool = True) -> None:
        """Read what is there, once there is something; wait at most ``patience`` seconds for it."""
        events = self._selector.select(patience)
        if many and events:
            # To be woken for each record of a long loop would slow the ranks down.
            time.sleep(GATHER)
            events = self._selector.select(0)
        # Records first: what a rank prints must not delay what it does.
        events.sort(key=lambda event: isinstance(event[0].fileobj, int))
        for key, mask in events:
            if mask & selectors.EVENT_WRITE:
                self.send(next(peer for peer in self.peers if peer.sock is key.fileobj))
            if mask & selectors.EVENT_READ and (orders or key.fileobj != self._wake_read):
                key.data()

    def tell_server(self, *values: Any) -> None:
        """Send the server a message."""
        with contextlib.suppress(OSError):
            self._launched.control.sendall(frame(*values))

    def send(self, peer: Peer, data: bytes = b"") -> None:
        """Send a rank ``data``, now or as soon as it reads."""
        waits = peer.send(data)
        if peer.closed is None:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if waits else 0)
            key = self._selector.get_key(peer.sock)
            self._selector.modify(peer.sock, wanted, key.data)

    def read_all_output(self, peer: Peer) -> None:
        """Read what the rank has printed so far."""
        for name in peer.streams:
            for _ in range(64):
                if not self._read_output(peer, name):
                    break

    def _follow_orders(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while not self._orders.empty():
            self._orders.get_nowait()()

    def _read_server(self) -> None:
        data = received(self._launched.control)
        if data:
            self._from_server += data
            for message in unframe(self._from_server):
                self._listener.on_server(message)
        elif data is not None:
            self._selector.unregister(self._launched.control)
            self._listener.on_server_closed()

    def _read_rank(self, peer: Peer) -> None:
        records = peer.receive()
        if peer.closed is not None:
            self._selector.unregister(peer.sock)
        else:
            self._listener.on_rank(peer, records)

    def _read_output(self, peer: Peer, name: str) -> bool:
        data = peer.read_output(name)
        if data:
            self._listener.on_printed(peer, data)
        elif data is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(peer.streams[name])
        return bool(data)
