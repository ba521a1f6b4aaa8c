"""Results that depend on who comes first: receives from any source, two threads on one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.record import Call
from harness.verdict._cause import Cause, group_ref, side, sides
from harness.verdict._findings import Finding
from harness.verdict._group_log import GroupLog
from harness.verdict._history import History
from harness.verdict._streams import Mailbox, Message
from harness.verdict._text import call_text, numbers, ranks_text, site

UNORDERED = frozenset({"misaligned_calls", "call_mismatch", "argument_mismatch"})


def race_causes(history: History) -> list[Cause]:
    """Messages and threads whose order nothing settles."""
    causes = [_threads(history, log) for log in history.groups.values() if log.raced]
    for box in history.streams.boxes.values():
        found = _open_to_two(box, history.streams.meetings)
        if found is not None:
            causes.append(_any_source(history, *found))
    return causes


def _open_to_two(
    box: Mailbox, meetings: Sequence[Mapping[int, Call]]
) -> tuple[Message, list[Message]] | None:
    """The first receive from any source that messages of two senders can reach."""
    left = [send for send in box.any_sends if send.partner is None]
    for receive in box.any_receives:
        possible = [send for send in left if not _after(receive, send, meetings)]
        first: dict[int, Message] = {}
        for send in possible:
            first.setdefault(send.call.rank, send)
        if len(first) > 1:
            return receive, list(first.values())
        for send in first.values():
            left.remove(send)
    return None


def _after(receive: Message, send: Message, meetings: Sequence[Mapping[int, Call]]) -> bool:
    """Whether the send can only begin after the receive is over: a collective lies between."""
    if receive.finished is None:
        return False
    for calls in meetings:
        ours, theirs = calls.get(receive.call.rank), calls.get(send.call.rank)
        if ours is None or theirs is None or theirs.async_op is not False:
            continue
        if ours.time > receive.finished and theirs.time < send.call.time:
            return True
    return False


def _any_source(history: History, receive: Message, sends: list[Message]) -> Cause:
    call = receive.call
    senders = [send.call.rank for send in sends]
    finding = Finding(
        "message_race",
        f"message race: rank {call.rank} receives from any source at {site(call.stack)}, and "
        f"messages of ranks {numbers(senders)} can both be the first",
        level="warning",
        detail="any_source",
        group=group_ref(history.log_of(call)),
        index=call.index + 1,
        op=call.op,
        ranks=(call.rank,),
        sides=sides(
            history, (call.rank,), {call.rank: call, **{s.call.rank: s.call for s in sends}}
        ),
        evidence=tuple(
            f"rank {s.call.rank} sends {call_text(s.call)} at {site(s.call.stack)}"
            for s in sorted(sends, key=lambda send: send.call.rank)
        ),
        hints=("name the source, unless the result is the same for every order",),
    )
    return Cause(finding, call.time, frozenset({call.rank, *senders}))


def _threads(history: History, log: GroupLog) -> Cause:
    guilty = tuple(sorted(r for r, threads in log.threads.items() if len(threads) > 1))
    rank = min(log.raced)
    one, two = log.raced[rank]
    finding = Finding(
        "message_race",
        f"two threads on one group: on rank {rank} {call_text(two)} at {site(two.stack)} begins "
        f"while {call_text(one)} at {site(one.stack)} of another thread is under way, both on "
        f"{group_ref(log)}; their order is left to chance",
        detail="threads",
        group=group_ref(log),
        index=two.index + 1,
        op=two.op,
        ranks=guilty,
        sides=tuple(
            side(history, r, call=log.raced[r][1], guilty=True)
            if r in log.raced
            else side(history, r, call=_latest(log, r), guilty=r in guilty)
            for r in history.everyone
        ),
        hints=("give each thread a group of its own, or make all calls from one thread",),
    )
    return Cause(finding, min(c.time for c, _ in log.raced.values()), frozenset(log.ranks))


def _latest(log: GroupLog, rank: int) -> Call | None:
    threads = log.threads.get(rank)
    return max(threads.values(), key=lambda c: c.call) if threads else None


def between_threads(causes: list[Cause], log: GroupLog) -> list[Cause]:
    """Calls that do not go together, of a group that several threads use: their order is chance."""
    guilty = tuple(sorted(r for r, threads in log.threads.items() if len(threads) > 1))
    if not guilty:
        return causes
    if log.raced:
        return [c for c in causes if c.finding.kind not in UNORDERED]  # told by `race_causes`
    return [
        _chance(c, log, guilty) if c.finding.kind in UNORDERED and c.finding.level == "error" else c
        for c in causes
    ]


def _chance(cause: Cause, log: GroupLog, guilty: tuple[int, ...]) -> Cause:
    calls = [c for r in guilty for c in log.threads[r].values()]
    places = ", ".join(sorted({site(c.stack) for c in calls}))
    finding = replace(
        cause.finding,
        kind="message_race",
        detail="threads",
        ranks=guilty,
        summary=f"two threads on one group ({places} on {ranks_text(guilty)}), in whatever order "
        f"they come: {cause.finding.summary}",
        hints=("give each thread a group of its own, or make all calls from one thread",),
    )
    return replace(cause, finding=finding)
