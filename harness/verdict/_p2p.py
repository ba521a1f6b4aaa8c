"""Point-to-point faults: messages that find no partner, or one of another type or size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.record import Call
from harness.verdict._cause import Cause, doing_all, group_ref, sides
from harness.verdict._deadlock import Wait
from harness.verdict._findings import Finding
from harness.verdict._history import History
from harness.verdict._streams import Message, message_detail
from harness.verdict._text import call_text, payload, ranks_text, site, tensors_text


def message_causes(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """Messages of different type or size, and those whose other end will never be posted."""
    causes = [_unlike(history, send, receive) for send, receive in history.streams.unlike]
    reported: set[tuple[int, int]] = set()
    for message in _hopeless(history, stuck):
        call = message.call
        other = other_tag(history, message)
        if (call.rank, call.call) in reported:
            continue
        reported.add((call.rank, call.call))
        if other is not None:
            reported.add((other.call.rank, other.call.call))
            causes.append(tags_differ(history, message, other))
        else:
            causes.append(_unmatched(history, message))
    return causes


def _hopeless(history: History, stuck: Mapping[int, list[Wait]]) -> Iterator[Message]:
    """Messages whose partner has ended: of ranks that wait for it, or left over at the end."""
    open_ = [m for box in history.streams.boxes.values() for m in box.waiting()]
    blocked = {id(w.thing) for waits in stuck.values() for w in waits}
    for message in sorted(open_, key=lambda m: (m.call.time, m.call.rank, m.call.call)):
        partners = [history.ranks[r] for r in message.missing()]
        over = all(state.over for state in partners)
        left = any(state.ended and state.ended.how in LEFT for state in partners)
        own = history.ranks[message.call.rank]
        waited_for = id(message) in blocked
        never = over and left and (waited_for or own.over)
        if never or (waited_for and other_tag(history, message) is not None):
            yield message


LEFT = ("returned", "skipped", "xfailed")


def other_tag(history: History, message: Message) -> Message | None:
    """An unpaired message between the same two ranks, the other way round, with another tag."""
    mine = message.call
    for box in history.streams.boxes.values():
        for other in box.waiting():
            call = other.call
            if (
                call.group == mine.group
                and call.op != mine.op
                and call.rank == mine.peer
                and call.peer in (mine.rank, None)
                and call.tag != mine.tag
            ):
                return other
    return None


def tags_differ(history: History, one: Message, two: Message) -> Cause:
    """A send and a receive that miss each other by their tags."""
    send, receive = sorted((one.call, two.call), key=lambda c: c.op == "recv")
    summary = (
        f"tags differ: rank {send.rank} sends {call_text(send)} with tag {send.tag or 0} at "
        f"{site(send.stack)}, rank {receive.rank} receives with tag {receive.tag or 0} at "
        f"{site(receive.stack)}"
    )
    ranks = tuple(sorted((send.rank, receive.rank)))
    calls = {send.rank: send, receive.rank: receive}
    finding = _finding(history, "unmatched_p2p", summary, "tag", send, ranks, calls)
    return Cause(finding, max(send.time, receive.time), frozenset(ranks))


def _unlike(history: History, send: Call, receive: Call) -> Cause:
    detail = message_detail(send, receive)
    out, into = tensors_text(payload(send)), tensors_text(payload(receive))
    summary = (
        f"arguments differ: rank {send.rank} sends {out} at {site(send.stack)}, "
        f"rank {receive.rank} receives into {into} at {site(receive.stack)} ({detail})"
    )
    ranks = tuple(sorted((send.rank, receive.rank)))
    calls = {send.rank: send, receive.rank: receive}
    finding = _finding(history, "argument_mismatch", summary, detail, send, ranks, calls)
    return Cause(finding, max(send.time, receive.time), frozenset(ranks))


def _unmatched(history: History, message: Message) -> Cause:
    call = message.call
    absent = tuple(message.missing())
    word, other = ("send", "receive") if call.op == "send" else ("receive", "send")
    summary = (
        f"unmatched {word}: rank {call.rank} made {call_text(call)} at {site(call.stack)}, but "
        f"{ranks_text(absent)} never posted the {other}, and {doing_all(history, absent)}"
    )
    finding = _finding(history, "unmatched_p2p", summary, word, call, absent, {call.rank: call})
    times = [e.time for r in absent if (e := history.ranks[r].ended) is not None]
    return Cause(finding, max([*times, call.time]), frozenset({call.rank, *absent}))


def wrong_neighbour(history: History, cycle: list[Wait]) -> Cause | None:
    """Ranks wait for messages from one rank while another one's are under way to them."""
    found: dict[int, tuple[Call, Call]] = {}
    for wait in cycle:
        thing = wait.thing
        if not isinstance(thing, Message) or thing.call.op != "recv" or thing.from_any:
            continue
        for box in history.streams.boxes.values():
            for other in box.waiting():
                call = other.call
                if call.op == "send" and call.peer == wait.rank and call.rank != thing.call.peer:
                    found.setdefault(wait.rank, (thing.call, call))
    if not found:
        return None
    rank, (receive, send) = min(found.items())
    summary = (
        f"wrong neighbour: rank {rank} receives from rank {receive.peer} at {site(receive.stack)}, "
        f"which never sends to it, while rank {send.rank} sends to it at {site(send.stack)}"
    )
    # All of the ring are off by one: where the others stand is only how far they have come.
    ranks = tuple(sorted(w.rank for w in cycle))
    calls = {r: pair[0] for r, pair in found.items()}
    finding = _finding(history, "unmatched_p2p", summary, "peer", receive, ranks, calls)
    involved = frozenset({w.rank for w in cycle})
    return Cause(finding, max(c.time for pair in found.values() for c in pair), involved)


def _finding(
    history: History,
    kind: str,
    summary: str,
    detail: str,
    call: Call,
    guilty: tuple[int, ...],
    calls: Mapping[int, Call],
) -> Finding:
    return Finding(
        kind,
        summary,
        detail=detail,
        group=group_ref(history.log_of(call)),
        index=call.index + 1,
        op=call.op,
        ranks=guilty,
        sides=sides(history, guilty, calls),
    )
