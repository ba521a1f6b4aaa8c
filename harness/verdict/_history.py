"""What is known of a run: groups, messages, creations, and where each thread of each rank is.

Records are taken in as they come, at a small cost each, and memory stays bounded whatever the
length of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.record import (
    P2P_OPS,
    Call,
    Creation,
    Destruction,
    Ended,
    Failed,
    Finished,
    GroupMade,
    Issued,
    NativeWait,
    NonMember,
    Record,
    Started,
    ThreadEnded,
    Touched,
    Value,
    Waiting,
)
from harness.verdict._group_log import GroupLog, Slot
from harness.verdict._rank_state import CreationSlot, RankState
from harness.verdict._signature import UNLIKE
from harness.verdict._streams import Message, Streams

KEPT = 8
VALUES = 4096


class History:
    """Everything known of a run of a world."""

    def __init__(
        self,
        world_size: int,
        weigh: Callable[[GroupLog, tuple[Slot, ...]], int],
        buffered_sends: bool = False,
    ) -> None:
        self._weigh = weigh
        self._buffered_sends = buffered_sends
        self.everyone = tuple(range(world_size))
        self.ranks = [RankState(rank) for rank in self.everyone]
        self.groups: dict[tuple[str, tuple[int, ...]], GroupLog] = {}
        self._logs: dict[tuple[int, str], GroupLog] = {}
        self.streams = Streams(self._buffered_sends)
        self.creations: dict[tuple[int, ...] | None, dict[int, CreationSlot]] = {}
        self._local_counts: dict[tuple[int, tuple[int, ...]], int] = {}
        self.touched: set[int] = set()
        self.fatal = False
        """Set once a fault was seen that no later record can undo."""
        self._handlers: dict[type, Callable[..., None]] = {
            GroupMade: self._group_made,
            Creation: self._creation,
            Destruction: self._destruction,
            Call: self._call,
            Waiting: self._waiting,
            Issued: self._free,
            Finished: self._finished,
            Failed: self._failed,
            NativeWait: self._native,
            Started: self._started,
            Ended: self._ended,
            ThreadEnded: self._thread_ended,
            Touched: self._touch,
            NonMember: self._non_member,
            Value: self._value,
        }

    def add(self, record: Record) -> None:
        """Take in one record."""
        self._handlers[type(record)](record)

    def clear(self) -> None:
        """Forget a finished run; keep groups and the counts of creations."""
        for log in self.groups.values():
            log.clear()
        for state in self.ranks:
            state.clear()
        self.streams = Streams(self._buffered_sends)
        self.touched.clear()
        self.fatal = False

    # -- calls ------------------------------------------------------------------------------

    def _group_made(self, record: GroupMade) -> None:
        log = self._group(record.key, record.ranks)
        log.name = log.name or record.name
        self._logs[record.rank, record.key] = log
        self.ranks[record.rank].works.made(record)

    def _group(self, key: str, ranks: tuple[int, ...]) -> GroupLog:
        """Ranks that make groups in different order may give one key to unlike member lists."""
        log = self.groups.get((key, ranks))
        if log is None:
            log = self.groups[key, ranks] = GroupLog(key, ranks, "")
        return log

    def log_of(self, call: Call) -> GroupLog:
        """The sequence of the group that the call is on."""
        log = self._logs.get((call.rank, call.group))
        if log is None:
            log = self._logs[call.rank, call.group] = self._group(call.group, self.everyone)
        return log

    def _call(self, call: Call) -> None:
        state = self.ranks[call.rank]
        if call.thread == 0:
            state.native = None
        thing: Slot | Message
        log = self.log_of(call)
        state.works.begin(call, log.size)
        if call.op in P2P_OPS:
            thing = self.streams.add(call, log.ranks)
            if self.streams.unlike:
                self.fatal = True
        else:
            thing = log.add(call)
            self._threads(log, call)
            if thing.met:
                if self.streams.any_used:
                    self.streams.synchronised(thing.calls)
                if log.passed(thing):
                    self._close(log)
            if thing.status == UNLIKE or thing.index >= log.floor:
                self.fatal = True
        state.begin(call.call, thing)
        # Other calls only issue; the thread blocks in a wait, of which a record tells.
        blocks = call.async_op is False or call.op == "monitored_barrier"
        state.threads[call.thread] = (call.stack, thing) if blocks else None
        self.touched.add(call.rank)

    def _threads(self, log: GroupLog, call: Call) -> None:
        """Two threads of a rank in one group at once come there in an order of luck.

        A thread inside a call that blocks as it is made cannot have told the other to go on.
        """
        seen = log.threads.setdefault(call.rank, {})
        seen.setdefault(call.thread, call)
        if len(seen) < 2 or call.rank in log.raced:
            return
        for thread, entry in self.ranks[call.rank].threads.items():
            if thread == call.thread or entry is None or not isinstance(entry[1], Slot):
                continue
            other = entry[1].calls.get(call.rank)
            if entry[1].log is log and other is not None and other.async_op is False:
                log.raced[call.rank] = (other, call)

    def _close(self, log: GroupLog) -> None:
        stretch = log.close_stretch()
        worth = self._weigh(log, stretch)
        if worth == 2:
            self.fatal = True
        if worth and len(log.closed) < KEPT:
            log.closed.append(stretch)

    def _waiting(self, record: Waiting) -> None:
        state = self.ranks[record.rank]
        if record.thread == 0:
            state.native = None
        thing = state.open.get(record.call)
        state.works.end(record.call)
        state.threads[record.thread] = None if thing is None else (record.stack, thing)
        self.touched.add(record.rank)

    def _free(self, record: Issued) -> None:
        self._unblock(record.rank, record.thread)

    def _finished(self, record: Finished) -> None:
        state = self.ranks[record.rank]
        self._unblock(record.rank, record.thread)
        state.works.end(record.call)
        thing = state.open.pop(record.call, None)
        if isinstance(thing, Message) and thing.from_any:
            thing.finished = record.time

    def _failed(self, record: Failed) -> None:
        state = self.ranks[record.rank]
        self._unblock(record.rank, record.thread)
        state.works.end(record.call)
        thing = state.open.pop(record.call, None)
        call: Call | Creation | None = None
        if isinstance(thing, Message):
            call = thing.call
        elif thing is not None:
            call = thing.calls.get(record.rank)
        state.failed.append((record, call))

    def _unblock(self, rank: int, thread: int) -> None:
        state = self.ranks[rank]
        state.threads[thread] = None
        if thread == 0:
            state.native = None

    # -- groups -----------------------------------------------------------------------------

    def _creation(self, record: Creation) -> None:
        state = self.ranks[record.rank]
        group: tuple[int, ...] | None = None
        members: Iterable[int] = self.everyone
        if record.local:
            group = members = record.ranks
            counted = (record.rank, record.ranks)
            index = self._local_counts.get(counted, 0)
            self._local_counts[counted] = index + 1
        else:
            index = state.creations
            state.creations += 1
        slots = self.creations.setdefault(group, {})
        slot = slots.get(index)
        if slot is None:
            slot = slots[index] = CreationSlot(index, tuple(members), record.local)
        slot.calls[record.rank] = record
        if slot.unlike or any(self.ranks[r].over for r in slot.missing()):
            self.fatal = True
        elif slot.met:
            del slots[index]
        state.begin(record.call, slot)
        state.works.creating(record)
        state.threads[record.thread] = (record.stack, slot)
        if record.thread == 0:
            state.native = None
        self.touched.add(record.rank)

    def _destruction(self, record: Destruction) -> None:
        self._unblock(record.rank, record.thread)
        mine = [log.key for log in self.groups.values() if record.rank in log.ranks]
        self.ranks[record.rank].works.destroys(record, [record.key] if record.key else mine)

    # -- ranks ------------------------------------------------------------------------------

    def _native(self, record: NativeWait) -> None:
        self.ranks[record.rank].native = record
        self.touched.add(record.rank)

    def _started(self, record: Started) -> None:
        state = self.ranks[record.rank]
        state.started = True
        state.threads.setdefault(0, None)

    def _ended(self, record: Ended) -> None:
        state = self.ranks[record.rank]
        if state.ended is None or record.how == "died":
            # A process that is killed after its function returned is still a death.
            state.ended = record
        # Where the main thread was when its process went away.
        state.inside = state.inside or state.threads.get(0)
        alive = () if record.how == "died" else record.threads
        state.threads = {t: s for t, s in state.threads.items() if t in alive}
        for thread in alive:
            state.threads.setdefault(thread, None)
        state.started = True
        if not state.threads:
            self._gone(state)
        # Whoever waits for this rank may be stuck now.
        self.touched.update(self.everyone)

    def _gone(self, state: RankState) -> None:
        """A rank makes no more calls: whatever others made and it did not is without a partner."""
        rank = state.rank
        if state.ended is not None and state.ended.how == "died":
            self.fatal = True
        for log in self.groups.values():
            if rank in log.count:
                log.floor = min(log.floor, log.count[rank])
                if max(log.count.values()) > log.floor:
                    self.fatal = True
        for slots in self.creations.values():
            if any(rank in slot.missing() for slot in slots.values()):
                self.fatal = True

    def _thread_ended(self, record: ThreadEnded) -> None:
        state = self.ranks[record.rank]
        state.threads.pop(record.thread, None)
        if state.over:
            self._gone(state)
            self.touched.update(self.everyone)
        self.touched.add(record.rank)

    def _touch(self, record: Touched) -> None:
        self.ranks[record.rank].works.touched(record)

    def _non_member(self, record: NonMember) -> None:
        outside = self.ranks[record.rank].works.outside
        if len(outside) < KEPT:
            outside.append(record)

    def _value(self, record: Value) -> None:
        values = self.ranks[record.rank].values
        if record.kind == "expect_same" or (record.wrong and len(values) < VALUES):
            values.append(record)

    def tidy(self) -> None:
        """Put everything in an order of its own, so that nothing depends on arrival."""
        self.groups = dict(sorted(self.groups.items()))
        for log in self.groups.values():
            log.tidy()
        for slots in self.creations.values():
            for slot in slots.values():
                slot.calls = dict(sorted(slot.calls.items()))
        self.streams.tidy()

    @property
    def all_over(self) -> bool:
        """Whether every rank has ended, with all its threads."""
        return all(state.over for state in self.ranks)
