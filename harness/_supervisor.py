"""The supervisor: one thread of the pytest process for each live world.

It reads what the ranks write, keeps it in order and hands it to the judge; it starts functions,
watches the clock and ends the world. It has no judgement of its own. Records are read before
output, and output in bounded bites, so that no flood of either delays a verdict or blocks a rank.
"""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from harness._debugging import Console, Heard, Watch
from harness._probes import Probe, Probes
from harness.launch._coverage import MEASURED
from harness.launch._debugger import DEBUG
from harness.launch._forkserver import Launched
from harness.launch._output import Kept
from harness.launch._rank import BROKEN, LEFT, LOG, READY, RESULT, RUN
from harness.launch._server import EXIT, GONE, KILL, REFUSED, STACKS, STARTED
from harness.layout import Layout
from harness.record import Ended, GroupMade, Record, Started
from harness.record._wire import Decoder, frame, unframe
from harness.verdict import Finding, Judge

SETTLE = 0.2
"""Seconds to wait, after a fault is proved, for the other ranks to block or end."""

STARTS_WITHIN = 120.0
"""Seconds for the ranks to be up: the first world waits for the server to import torch."""

MANY = 256
GATHER = 0.01
"""After `MANY` records of a run, those of so many seconds are read together."""

KEPT = 512
"""How many records of each rank are kept for reports, if nobody asks for more."""

ENDS_WITHIN = 10.0
STACKS_WITHIN = 0.4
STACKS_AT_MOST = 3.0
_BITE = 1 << 16
_READ = 1 << 18


@dataclass(slots=True)
class Outcome:
    """What came of one run: results by rank, or findings."""

    results: list[bytes]
    ended: list[Ended | None]
    findings: list[Finding] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    output: list[dict[str, str]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    to_verdict: float = 0.0
    """Seconds from the last thing a rank did to the verdict."""
    trouble: str = ""
    """Why the ranks did not start, where they did not."""
    left: tuple[tuple[str, ...], ...] = ()
    """For each rank what the function left behind, where that was watched."""
    records: tuple[Record, ...] = ()
    """The groups of each rank, then the last records of all, by time, where they were asked for."""
    left_out: dict[int, int] = field(default_factory=dict)
    """By rank, how many earlier records are not among them."""
    began: float = 0.0
    ended_at: float = 0.0
    measured: tuple[tuple[Any, ...], ...] = ()
    """What coverage.py measured in the ranks, where that was asked for."""


@dataclass(slots=True)
class _Peer:
    """A rank as the supervisor sees it."""

    sock: socket.socket
    decoder: Decoder
    buffer: bytearray = field(default_factory=bytearray)
    to_send: bytearray = field(default_factory=bytearray)
    kept: dict[str, Kept] = field(default_factory=dict)
    ready: bool = False
    closed: float | None = None
    exited: str = ""
    dead: bool = False
    result: bytes = b""
    ended: Ended | None = None
    left: tuple[str, ...] = ()
    measured: tuple[Any, ...] | None = None
    groups: list[GroupMade] = field(default_factory=list)
    records: deque[Record] = field(default_factory=deque)
    recorded: int = 0


class Supervisor:
    """Watches one world from its start to its end."""

    def __init__(self, launched: Launched, layout: Layout, buffered_sends: bool = False) -> None:
        self._launched = launched
        self._peers = [_Peer(ends.sock, Decoder(r)) for r, ends in enumerate(launched.ranks)]
        self._judge = Judge(len(self._peers), buffered_sends=buffered_sends)
        for known in _groups_of(layout):
            self._judge.add(known)
        self._probes = Probes(self._ask_stacks)
        self._selector = selectors.DefaultSelector()
        self._control = bytearray()
        self._wake_read, self._wake_write = os.pipe()
        self._orders: queue.SimpleQueue[tuple[str, Any, float]] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Outcome | Heard] = queue.SimpleQueue()
        self._watch = Watch()
        self._running = False
        self._payload: tuple[Any, ...] | None = None
        self._deadline = 0.0
        self._seconds = 0.0
        self._limit = float("inf")
        self._late = ""
        self._proved: float | None = None
        self._last_act = 0.0
        self._records = 0
        self._began = 0.0
        self._keeps, self._always = KEPT, False
        self._final_stacks: float | None = None
        self._notes: list[str] = []
        self._trouble = ""
        self._gone = False
        self._killed = False
        self._closing = False
        self.pids: list[int] = []
        self._thread = threading.Thread(target=self._loop, name="pytest-collectives", daemon=True)
        self._register()
        self._thread.start()

    # -- called from the pytest thread ------------------------------------------------------

    def run(
        self,
        payload: bytes,
        seconds: float,
        limit: float = float("inf"),
        *,
        test: str = "",
        afresh: bool = False,
        watched: bool = False,
        kept: int = KEPT,
        always: bool = False,
        measure: bytes = b"",
        console: Console | None = None,
    ) -> Outcome:
        """Have every rank run ``payload`` for at most ``seconds``, once all are up.

        ``limit`` bounds both together, on the monotonic clock. ``test`` is the name of the running
        test. With ``afresh`` the ranks are seeded as at their start; with ``watched`` they say what
        the function leaves behind. The last ``kept`` records of each rank come with the outcome if
        there is an error, or ``always``. ``measure`` is what `harness._coverage` wants of the ranks;
        a debugger may be opened by the rank of ``console``.
        """
        self._keeps, self._always = kept, always
        now = time.monotonic()
        self._seconds, self._limit = seconds, limit
        start_by = min(now + STARTS_WITHIN, limit)
        rank = None if console is None else console.rank
        self._order("run", (rank, (payload, test, afresh, watched, measure)), start_by)
        latest = min(start_by + seconds, limit)
        patience = latest - now + ENDS_WITHIN + STACKS_WITHIN + 5
        if console is not None:
            return console.wait(self._outcomes, patience, self._answer, self._interrupt)
        outcome = self._outcomes.get(timeout=patience)
        assert isinstance(outcome, Outcome)
        return outcome

    @property
    def sound(self) -> bool:
        """Whether every rank is up and waits for a function."""
        return self._thread.is_alive() and not (
            self._running or self._killed or self._gone or any(p.closed for p in self._peers)
        )

    def close(self) -> str:
        """Kill the ranks and end the thread; returns what went wrong since the last run."""
        self._order("close", None, 0.0)
        self._thread.join(ENDS_WITHIN + 5)
        return self._late

    def _answer(self, *values: Any) -> None:
        self._order("answer", frame(*values), 0.0)

    def _interrupt(self) -> None:
        rank = self._watch.rank
        if rank is not None and not self._peers[rank].dead:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[rank], signal.SIGINT)

    def _order(self, what: str, value: Any, deadline: float) -> None:
        self._orders.put((what, value, deadline))
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"!")

    def _deaths(self) -> str:
        dead = [(r, p.exited) for r, p in enumerate(self._peers) if p.dead]
        return "; ".join(f"rank {r} ended between runs with {how}" for r, how in dead)

    # -- the thread -------------------------------------------------------------------------

    def _register(self) -> None:
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_order)
        self._launched.control.setblocking(False)
        self._selector.register(self._launched.control, selectors.EVENT_READ, self._on_control)
        for rank, ends in enumerate(self._launched.ranks):
            ends.sock.setblocking(False)
            self._selector.register(
                ends.sock, selectors.EVENT_READ, lambda rank=rank: self._on_rank(rank)
            )
            for name, descriptor in (("stdout", ends.out), ("stderr", ends.err)):
                os.set_blocking(descriptor, False)
                self._peers[rank].kept[name] = Kept()
                self._selector.register(
                    descriptor,
                    selectors.EVENT_READ,
                    lambda rank=rank, name=name, fd=descriptor: self._on_output(rank, name, fd),
                )
            self._peers[rank].kept["log"] = Kept()

    def _loop(self) -> None:
        try:
            while not (self._closing and self._gone):
                events = self._selector.select(self._patience())
                if self._records > MANY and events:
                    # To be woken for each record of a long loop would slow the ranks down.
                    time.sleep(GATHER)
                    events = self._selector.select(0)
                # Records first: what a rank prints must not delay what it does.
                events.sort(key=lambda event: isinstance(event[0].fileobj, int))
                for key, mask in events:
                    if mask & selectors.EVENT_WRITE:
                        self._flush(key.fileobj)
                    if mask & selectors.EVENT_READ:
                        key.data()
                self._step()
        except Exception:
            # Never silent: the run that waits for an outcome gets this one.
            self._kill()
            self._outcomes.put(self._broken(traceback.format_exc()))
        finally:
            self._finish()

    def _broken(self, trace: str) -> Outcome:
        nothing = [b"" for _ in self._peers]
        return Outcome(
            results=nothing,
            ended=[None for _ in self._peers],
            trouble=f"an internal error of pytest-collectives, please report it:\n{trace}",
        )

    def _finish(self) -> None:
        self._selector.close()
        self._launched.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _patience(self) -> float:
        now = time.monotonic()
        times = [now + 1.0]
        if self._running:
            times.append(self._deadline)
            if self._proved is not None:
                times.append(self._proved + SETTLE)
            if self._final_stacks is not None:
                times.append(self._final_stacks)
            if self._payload is None and self._final_stacks is None:
                times.append(self._probes.next_time(self._last_act))
        elif self._closing:
            times.append(now + 0.1)
        return max(0.0, min(times) - now)

    def _on_order(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        while not self._orders.empty():
            what, value, deadline = self._orders.get_nowait()
            if what == "close":
                self._closing = True
                if not self._killed:
                    self._late = self._deaths()
                self._kill()
                self._deadline = time.monotonic() + ENDS_WITHIN
            elif what == "answer":
                self._to_debugger(value)
            else:
                debugged, payload = value
                self._begin(debugged, payload, deadline)

    def _begin(self, debugged: int | None, payload: tuple[Any, ...], deadline: float) -> None:
        self._running = True
        self._watch.begin(debugged)
        self._deadline = deadline
        self._payload = payload
        self._records = 0
        self._proved = self._final_stacks = None
        self._probes.reset()
        for peer in self._peers:
            peer.result, peer.ended, peer.measured = b"", None, None
            peer.records, peer.recorded = deque(maxlen=self._keeps), 0

    def _on_control(self) -> None:
        data = self._receive(self._launched.control)
        if data is None:
            return
        if not data:
            self._selector.unregister(self._launched.control)
            self._gone = True
            if not self._killed:
                self._trouble = self._trouble or "the server that starts ranks has ended"
            return
        self._control += data
        for message in unframe(self._control):
            kind = message[0]
            if kind == EXIT:
                self._peers[message[1]].exited = message[2]
            elif kind == STARTED:
                self.pids = message[1]
            elif kind == STACKS:
                self._probes.answered({r: Probe(*v) for r, v in message[2].items()})
            elif kind == REFUSED:
                self._trouble = message[1]
            elif kind == GONE:
                self._gone = True

    def _on_rank(self, rank: int) -> None:
        peer = self._peers[rank]
        data = self._receive(peer.sock)
        if data is None:
            return
        if not data:
            self._selector.unregister(peer.sock)
            peer.closed = time.monotonic()
            return
        peer.buffer += data
        for message in unframe(peer.buffer):
            self._message(rank, peer, message)

    def _message(self, rank: int, peer: _Peer, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == RESULT:
            peer.result = message[1]
        elif kind == LEFT:
            peer.left = message[1]
        elif kind == MEASURED:
            peer.measured = message[1:]
        elif kind == DEBUG:
            self._from_debugger(rank, message)
        elif kind == LOG:
            peer.kept["log"].add(message[1].encode("utf-8", "replace") + b"\n")
        elif kind == READY:
            peer.ready = True
            if message[1] and message[1] not in self._notes:
                self._notes.append(message[1])
        elif kind == BROKEN:
            self._trouble = self._trouble or f"rank {rank} could not be set up:\n{message[1]}"
        else:
            record = peer.decoder.record(message)
            if record is None or self._killed or self._final_stacks is not None:
                # Past the deadline gloo's own timeouts fire; they are not what happened.
                return
            self._records += 1
            self._last_act = max(self._last_act, getattr(record, "time", 0.0))
            if isinstance(record, GroupMade):
                peer.groups.append(record)
            else:
                peer.records.append(record)
                peer.recorded += 1
            if isinstance(record, Ended):
                peer.ended = record
            self._judge.add(record)

    def _from_debugger(self, rank: int, message: tuple[Any, ...]) -> None:
        self._read_all_output(rank)
        heard, self._deadline = self._watch.heard(message, self._deadline)
        self._outcomes.put(heard)

    def _to_debugger(self, answer: bytes) -> None:
        if self._watch.rank is not None:
            self._watch.waits = False
            peer = self._peers[self._watch.rank]
            peer.to_send += answer
            self._write(peer)

    def _on_output(self, rank: int, name: str, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _BITE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(descriptor)
            return False
        self._peers[rank].kept[name].add(data)
        if rank == self._watch.rank:
            self._watch.printed(data)
        return True

    @staticmethod
    def _receive(sock: socket.socket) -> bytes | None:
        try:
            return sock.recv(_READ)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _flush(self, fileobj: Any) -> None:
        for peer in self._peers:
            if peer.sock is fileobj:
                self._write(peer)

    def _write(self, peer: _Peer) -> None:
        try:
            sent = peer.sock.send(peer.to_send)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(peer.to_send)  # the rank is gone; its end is noticed elsewhere
        del peer.to_send[:sent]
        if peer.closed is None:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.to_send else 0)
            key = self._selector.get_key(peer.sock)
            self._selector.modify(peer.sock, wanted, key.data)

    # -- what follows from it ---------------------------------------------------------------

    def _step(self) -> None:
        now = time.monotonic()
        self._notice_deaths(now)
        if not self._running:
            if self._closing and now > self._deadline:
                self._gone = True  # the server does not answer; its end is the ranks' end
            return
        if self._watch.waits and not self._peers[self._watch.rank or 0].dead:
            return  # nor is the rank asked for its stack while the user thinks
        if self._trouble:
            self._end(trouble=self._trouble)
        elif self._payload is not None:
            self._start_when_ready(now)
        elif self._final_stacks is not None:
            if self._probes.complete or now >= self._final_stacks:
                self._end(self._judge.findings(deadline=True, stacks=self._probes.stacks()))
        elif now < self._deadline and (self._proved is not None or self._judge.fault()):
            self._proved = self._proved or now
            over = now >= self._proved + SETTLE and not self._watch.is_open
            if over or self._judge.settled():
                self._conclude()
        elif all(peer.ended is not None for peer in self._peers) and self._judge.settled():
            self._conclude()
        elif now >= self._deadline:
            # The server may be at its imports after the first world; then it answers late.
            late = min(now + STACKS_AT_MOST, self._limit)
            self._final_stacks = max(now + STACKS_WITHIN, late)
            self._ask_stacks([r for r, p in enumerate(self._peers) if not p.dead])
        else:
            for waiting in self._probes.step(now, self._last_act, self._judge.awaited):
                self._judge.add(waiting)

    def _notice_deaths(self, now: float) -> None:
        for rank, peer in enumerate(self._peers):
            if peer.dead or self._killed or peer.closed is None:
                continue
            if not peer.exited and now < peer.closed + 1.0:
                continue
            peer.dead = True
            how = peer.exited or "its connection to the supervisor closed by the code under test"
            if peer.ended is None or self._running:
                ended = Ended(rank, "died", now, message=how)
                peer.ended = peer.ended or ended
                self._judge.add(ended)

    def _start_when_ready(self, now: float) -> None:
        dead = [(r, p) for r, p in enumerate(self._peers) if p.dead]
        if dead:
            rank, peer = dead[0]
            self._end(trouble=f"rank {rank} ended with {peer.exited} before the function began")
        elif all(peer.ready for peer in self._peers):
            assert self._payload is not None
            order = frame(RUN, *self._payload)
            self._payload = None
            self._deadline = min(now + self._seconds, self._limit)
            self._last_act = self._began = now
            for rank, peer in enumerate(self._peers):
                self._judge.add(Started(rank, now))
                peer.to_send += order
                self._write(peer)
        elif now >= self._deadline:
            late = [r for r, p in enumerate(self._peers) if not p.ready]
            self._end(
                trouble=f"ranks {late} were not up in time: the machine is very busy, or "
                "world_preload imports something slow"
            )

    def _conclude(self) -> None:
        findings = self._judge.findings()
        if self._proved is not None and not any(f.level == "error" for f in findings):
            # What looked like a fault is none with all in view: go on.
            self._proved = None
            if not all(peer.ended is not None for peer in self._peers):
                return
        self._end(findings)

    def _end(self, findings: list[Finding] | None = None, trouble: str = "") -> None:
        """Finish the run: hand over what came of it; a world with a fault is killed."""
        now = time.monotonic()
        self._running = False
        self._payload = None
        findings = findings or []
        failed = any(f.level == "error" for f in findings)
        if trouble or failed:
            self._kill()
            self._await_gone()
        else:
            self._judge.next_run()
        for rank in range(len(self._peers)):
            self._read_all_output(rank)
        self._outcomes.put(
            Outcome(
                results=[peer.result for peer in self._peers],
                ended=[peer.ended for peer in self._peers],
                findings=findings,
                stacks=self._probes.texts(),
                output=[{n: k.take() for n, k in p.kept.items()} for p in self._peers],
                notes=tuple(self._notes),
                to_verdict=max(0.0, now - self._last_act) if self._last_act else 0.0,
                trouble=trouble,
                left=tuple(peer.left for peer in self._peers),
                records=self._kept() if failed or self._always else (),
                left_out={
                    rank: peer.recorded - len(peer.records)
                    for rank, peer in enumerate(self._peers)
                    if peer.recorded > len(peer.records)
                },
                began=self._began,
                ended_at=now,
                measured=tuple(p.measured for p in self._peers if p.measured is not None),
            )
        )
        for peer in self._peers:
            peer.records.clear()

    def _read_all_output(self, rank: int) -> None:
        ends = self._launched.ranks[rank]
        for name, descriptor in (("stdout", ends.out), ("stderr", ends.err)):
            for _ in range(64):
                if not self._on_output(rank, name, descriptor):
                    break

    def _kept(self) -> tuple[Record, ...]:
        groups = [made for peer in self._peers for made in peer.groups]
        records = [record for peer in self._peers for record in peer.records]
        return (*groups, *sorted(records, key=lambda record: getattr(record, "time", 0.0)))

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._tell(KILL)

    def _await_gone(self) -> None:
        """Go on reading until the server says that no rank is left."""
        until = time.monotonic() + ENDS_WITHIN
        while not self._gone and time.monotonic() < until:
            for key, mask in self._selector.select(0.05):
                if mask & selectors.EVENT_READ and key.fileobj != self._wake_read:
                    key.data()

    def _ask_stacks(self, ranks: list[int]) -> None:
        self._probes.asked(ranks)
        self._tell(STACKS, self._probes.number, ranks)

    def _tell(self, *values: Any) -> None:
        with contextlib.suppress(OSError):
            self._launched.control.sendall(frame(*values))


def _groups_of(layout: Layout) -> list[GroupMade]:
    """The groups of the layout, made or not, so that a finding can name whose members called.

    Groups of one rank say nothing, but for a pipeline stage that calls on its own.
    """
    made = []
    for name in layout.group_names():
        for number, ranks in enumerate(layout.groups(name)):
            if len(ranks) > 1 or (layout.pp > 1 and name == "dp"):
                made.append(GroupMade(ranks[0], f"layout-{name}-{number}", ranks, name))
    return made
