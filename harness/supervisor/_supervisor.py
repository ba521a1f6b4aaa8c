"""The supervisor: one thread of the pytest process for each live world.

It hands what the ranks write to the judge, in order; it starts functions, watches the clock and
ends the world. It has no judgement of its own. How things are read is `harness.supervisor._connections`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness._debugging import Console, Heard, Watch
from harness.launch._forkserver import Launched
from harness.launch._rank import RUN
from harness.launch._server import EXIT, GONE, KILL, REFUSED, STACKS, STARTED
from harness.layout import Layout
from harness.record import Ended, GroupMade, Record, Started
from harness.record._wire import frame
from harness.supervisor._connections import Connections
from harness.supervisor._outcome import Outcome, gathered
from harness.supervisor._peer import Peer
from harness.supervisor._probes import Probe, Probes
from harness.verdict import Finding, Judge

SETTLE = 0.2
"""Seconds to wait, after a fault is proved, for the other ranks to block or end."""

STARTS_WITHIN = 120.0
"""Seconds for the ranks to be up: the first world waits for the server to import torch."""

MANY = 256
"""After so many records of a run, what comes is left to gather for a moment, and read together."""

KEPT = 512
"""How many records of each rank are kept for reports, if nobody asks for more."""

ENDS_WITHIN = 10.0
STACKS_WITHIN = 0.4
STACKS_AT_MOST = 3.0


@dataclass(slots=True)
class _Run:
    """A function on all ranks, as it was asked for, and how far it has come."""

    order: bytes = b""
    """What the ranks are sent to start it; empty once that is done."""
    seconds: float = 0.0
    limit: float = float("inf")
    kept: int = KEPT
    always: bool = False
    debugged: int | None = None
    began: float = 0.0
    records: int = 0
    proved: float | None = None
    """When the judge first proved a fault."""
    final_stacks: float | None = None
    """The deadline has passed: until when the ranks may answer with their stacks."""


class Supervisor:
    """Watches one world from its start to its end."""

    def __init__(self, launched: Launched, layout: Layout, buffered_sends: bool = False) -> None:
        self._connections = Connections(launched, self)
        self._peers = self._connections.peers
        self._judge = Judge(len(self._peers), buffered_sends=buffered_sends)
        for known in _groups_of(layout):
            self._judge.add(known)
        self._probes = Probes(self._ask_stacks)
        self._outcomes: queue.SimpleQueue[Outcome | Heard] = queue.SimpleQueue()
        self._watch = Watch()
        self._run = _Run()
        self._running = False
        self._deadline = 0.0
        """Of whatever is under way: the ranks' start, the function, or the end of the world."""
        self._late = ""
        self._last_act = 0.0
        self._trouble = ""
        self._gone = False
        self._killed = False
        self._closing = False
        self.pids: list[int] = []
        self._thread = threading.Thread(target=self._loop, name="pytest-collectives", daemon=True)
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
        now = time.monotonic()
        start_by = min(now + STARTS_WITHIN, limit)
        latest = min(start_by + seconds, limit)
        patience = latest - now + ENDS_WITHIN + STACKS_WITHIN + 5
        order = frame(RUN, payload, test, afresh, watched, measure)
        rank = None if console is None else console.rank
        run = _Run(order, seconds, limit, kept, always, rank)
        self._connections.order(partial(self._begin, run, start_by))
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
        self._connections.order(self._close)
        self._thread.join(ENDS_WITHIN + 5)
        return self._late

    def _answer(self, *values: Any) -> None:
        self._connections.order(partial(self._to_debugger, frame(*values)))

    def _interrupt(self) -> None:
        rank = self._watch.rank
        if rank is not None and not self._peers[rank].dead:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[rank], signal.SIGINT)

    # -- the thread -------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while not (self._closing and self._gone):
                many = self._run.records > MANY
                self._connections.take_in(self._patience(), many=many)
                self._step()
        except Exception:
            # Never silent: the run that waits for an outcome gets this one.
            self._kill()
            self._outcomes.put(self._broken(traceback.format_exc()))
        finally:
            self._connections.close()

    def _broken(self, trace: str) -> Outcome:
        nothing = [b"" for _ in self._peers]
        return Outcome(
            results=nothing,
            ended=[None for _ in self._peers],
            trouble=f"an internal error of pytest-collectives, please report it:\n{trace}",
        )

    def _patience(self) -> float:
        now = time.monotonic()
        times = [now + 1.0]
        run = self._run
        if self._running:
            times.append(self._deadline)
            if run.proved is not None:
                times.append(run.proved + SETTLE)
            if run.final_stacks is not None:
                times.append(run.final_stacks)
            elif not run.order:
                times.append(self._probes.next_time(self._last_act))
        elif self._closing:
            times.append(now + 0.1)
        return max(0.0, min(times) - now)

    def _begin(self, run: _Run, start_by: float) -> None:
        self._run, self._running, self._deadline = run, True, start_by
        self._watch.begin(run.debugged)
        self._probes.reset()
        for peer in self._peers:
            peer.begin(run.kept)

    def _close(self) -> None:
        self._closing = True
        if not self._killed:
            dead = [peer for peer in self._peers if peer.dead]
            self._late = "; ".join(
                f"rank {peer.rank} ended between runs with {peer.exited}" for peer in dead
            )
        self._kill()
        self._deadline = time.monotonic() + ENDS_WITHIN

    # -- what it is told by its connections -------------------------------------------------

    def on_rank(self, peer: Peer, records: list[Record]) -> None:
        """A rank has sent something."""
        self._trouble = self._trouble or peer.broken
        # Past the deadline gloo's own timeouts fire; they are not what happened.
        if not self._killed and self._run.final_stacks is None:
            self._run.records += len(records)
            for record in records:
                self._last_act = max(self._last_act, getattr(record, "time", 0.0))
                peer.keep(record)
                self._judge.add(record)
        if peer.debugging:
            self._from_debugger(peer)

    def on_server(self, message: tuple[Any, ...]) -> None:
        """The server says how ranks start, wait or end."""
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

    def on_server_closed(self) -> None:
        """The server has ended, and with it the ranks."""
        self._gone = True
        if not self._killed:
            self._trouble = self._trouble or "the server that starts ranks has ended"

    def on_printed(self, peer: Peer, data: bytes) -> None:
        """A rank has printed something."""
        if peer.rank == self._watch.rank:
            self._watch.printed(data)

    def _from_debugger(self, peer: Peer) -> None:
        said, peer.debugging = peer.debugging, []
        if self._killed:
            return  # gloo raises in a rank whose peers are killed first: no prompt opens for that
        self._connections.read_all_output(peer)
        for message in said:
            heard, self._deadline = self._watch.heard(message, self._deadline)
            self._outcomes.put(heard)

    def _to_debugger(self, answer: bytes) -> None:
        if self._watch.rank is not None:
            self._watch.waits = False
            self._connections.send(self._peers[self._watch.rank], answer)

    # -- what follows from it ---------------------------------------------------------------

    def _step(self) -> None:
        now = time.monotonic()
        self._notice_deaths(now)
        run = self._run
        if not self._running:
            if self._closing and now > self._deadline:
                self._gone = True  # the server does not answer; its end is the ranks' end
            return
        if self._watch.waits and not self._peers[self._watch.rank or 0].dead:
            return  # nor is the rank asked for its stack while the user thinks
        if self._trouble:
            self._end(trouble=self._trouble)
        elif run.order:
            self._start_when_ready(now)
        elif run.final_stacks is not None:
            if self._probes.complete or now >= run.final_stacks:
                self._end(self._judge.findings(deadline=True, stacks=self._probes.stacks()))
        elif now < self._deadline and (run.proved is not None or self._judge.fault()):
            run.proved = run.proved or now
            over = now >= run.proved + SETTLE and not self._watch.is_open
            if over or self._judge.settled():
                self._conclude()
        elif all(peer.ended is not None for peer in self._peers) and self._judge.settled():
            self._conclude()
        elif now >= self._deadline:
            # The server may be at its imports after the first world; then it answers late.
            late = min(now + STACKS_AT_MOST, run.limit)
            run.final_stacks = max(now + STACKS_WITHIN, late)
            self._ask_stacks([peer.rank for peer in self._peers if not peer.dead])
        else:
            for waiting in self._probes.step(now, self._last_act, self._judge.awaited):
                self._judge.add(waiting)

    def _notice_deaths(self, now: float) -> None:
        if self._killed:
            return
        for peer in self._peers:
            if not peer.has_died(now):
                continue
            how = peer.exited or "its connection to the supervisor closed by the code under test"
            if peer.ended is None or self._running:
                ended = Ended(peer.rank, "died", now, message=how)
                peer.ended = peer.ended or ended
                self._judge.add(ended)

    def _start_when_ready(self, now: float) -> None:
        run = self._run
        dead = [peer for peer in self._peers if peer.dead]
        if dead:
            how = f"rank {dead[0].rank} ended with {dead[0].exited}"
            self._end(trouble=f"{how} before the function began")
        elif all(peer.ready for peer in self._peers):
            order, run.order = run.order, b""
            self._deadline = min(now + run.seconds, run.limit)
            self._last_act = run.began = now
            for peer in self._peers:
                self._judge.add(Started(peer.rank, now))
                self._connections.send(peer, order)
        elif now >= self._deadline:
            late = [peer.rank for peer in self._peers if not peer.ready]
            self._end(
                trouble=f"ranks {late} were not up in time: the machine is very busy, or "
                "world_preload imports something slow"
            )

    def _conclude(self) -> None:
        findings = self._judge.findings()
        if self._run.proved is not None and not any(f.level == "error" for f in findings):
            # What looked like a fault is none with all in view: go on.
            self._run.proved = None
            if not all(peer.ended is not None for peer in self._peers):
                return
        self._end(findings)

    def _end(self, findings: list[Finding] | None = None, trouble: str = "") -> None:
        """Finish the run: hand over what came of it; a world with a fault is killed."""
        now = time.monotonic()
        run = self._run
        self._running = False
        run.order = b""
        findings = findings or []
        failed = any(f.level == "error" for f in findings)
        if trouble or failed:
            self._kill()
            self._await_gone()
        else:
            self._judge.next_run()
        for peer in self._peers:
            self._connections.read_all_output(peer)
        self._outcomes.put(
            gathered(
                self._peers,
                records=failed or run.always,
                findings=findings,
                stacks=self._probes.texts(),
                to_verdict=max(0.0, now - self._last_act) if self._last_act else 0.0,
                trouble=trouble,
                began=run.began,
                ended_at=now,
            )
        )
        for peer in self._peers:
            peer.records.clear()

    def _kill(self) -> None:
        if not self._killed:
            self._killed = True
            self._connections.tell_server(KILL)

    def _await_gone(self) -> None:
        """Go on reading until the server says that no rank is left."""
        until = time.monotonic() + ENDS_WITHIN
        while not self._gone and time.monotonic() < until:
            self._connections.take_in(0.05, orders=False)

    def _ask_stacks(self, ranks: list[int]) -> None:
        self._probes.asked(ranks)
        self._connections.tell_server(STACKS, self._probes.number, ranks)


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
