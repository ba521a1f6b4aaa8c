"""Ranks that raised, died or never came: what that did to the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from harness.record import Call, Stack
from harness.verdict._cause import (
    Cause,
    blocked_in,
    call_of,
    doing,
    ended_text,
    error_text,
    group_ref,
    number_text,
    side,
    sides,
    text_of,
)
from harness.verdict._deadlock import Wait
from harness.verdict._findings import Finding, Side
from harness.verdict._group_log import Slot
from harness.verdict._history import History
from harness.verdict._rank_state import Open
from harness.verdict._streams import Message
from harness.verdict._text import numbers, plain, ranks_text, site, verb

RAISED = ("raised", "failed")
NO_GROUP = r"process group has not been initialized|[Ii]nvalid process group|group .*destroyed"
NOT_MEMBER = re.compile(r"rank \d+ is not part of group|rank \d+ .*not in group", re.IGNORECASE)


def rank_causes(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """Ranks that died, and ranks whose own code raised."""
    causes = []
    died = [r for r in history.everyone if _how(history, r) == "died"]
    # A rank that dies inside a call may have been killed by what another did there.
    idle = [r for r in died if history.ranks[r].inside is None] or died
    if died:
        causes.append(_died(history, idle, stuck))
    raised = own_errors(history)
    if raised and (history.all_over or stuck or history.fatal):
        causes.append(_raised(history, raised, stuck))
    return causes


def errors_out_of_calls(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """Errors that came out of a collective, for when nothing else explains them."""
    ranks = [r for r in history.everyone if _how(history, r) in RAISED]
    return [_raised(history, ranks, stuck)] if ranks else []


def left_by_error(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """At the deadline: errors out of calls that the ranks still running are inside of.

    All members have made the call, so it might yet return; but one of them has left it by an error.
    """
    left = {r for r in history.everyone if _how(history, r) in RAISED}
    for rank in history.everyone:
        if history.ranks[rank].over:
            continue
        entry = blocked_in(history, rank)
        thing = None if entry is None else entry[1]
        if not isinstance(thing, Slot) or not left.intersection(thing.calls):
            return []
    return errors_out_of_calls(history, stuck)


def own_errors(history: History) -> list[int]:
    """Ranks whose exception did not come out of a collective.

    A rank that had a failed call before, and then raises something else, follows the first.
    """
    raised = []
    for rank in history.everyone:
        ended = history.ranks[rank].ended
        if ended is not None and ended.how in RAISED and ended.inside is None:
            raised.append(rank)
    alone = [r for r in raised if not history.ranks[r].failed]
    return alone or raised


def _how(history: History, rank: int) -> str:
    ended = history.ranks[rank].ended
    return ended.how if ended is not None else ""


def _time(history: History, rank: int) -> float:
    ended = history.ranks[rank].ended
    return ended.time if ended is not None else float("inf")


def _for_them(
    history: History, culprits: list[int], stuck: Mapping[int, list[Wait]]
) -> tuple[str, Open | None]:
    """Who waits for the culprits, and in what; else whose calls failed for want of them."""
    waiting: dict[str, list[int]] = {}
    first: Open | None = None
    for rank, waits in sorted(stuck.items()):
        for wait in waits:
            if set(wait.absent) & set(culprits):
                first = first or wait.thing
                waiting.setdefault(_where(history, wait.thing, rank), []).append(rank)
                break
    it = "it" if len(culprits) == 1 else "them"
    if not waiting:
        slot, failed = _failed_for(history, culprits)
        if slot is None:
            return "", None
        where = _where(history, slot, failed[0])
        return f"; {ranks_text(failed)} waited for {it} in {where}", slot
    parts = [
        f"{ranks_text(r)} {verb(r, 'waits', 'wait')} for {it} in {where}"
        for where, r in list(waiting.items())[:2]
    ]
    return "; " + "; ".join(parts), first


def _where(history: History, thing: Open, rank: int) -> str:
    number = number_text(thing, history)
    return f"{text_of(call_of(thing, rank))}{f', {number}' if number else ''}"


def _failed_for(history: History, culprits: list[int]) -> tuple[Slot | None, list[int]]:
    """The first collective that failed on other ranks while the culprits had not made it."""
    failed = {
        (rank, call.call)
        for rank in history.everyone
        for _, call in history.ranks[rank].failed
        if isinstance(call, Call)
    }
    for log in history.groups.values():
        for slot in log.slots:
            if set(slot.missing()) & set(culprits):
                ranks = [r for r, c in slot.calls.items() if (r, c.call) in failed]
                if ranks:
                    return slot, ranks
    return None, []


def _died(history: History, ranks: list[int], stuck: Mapping[int, list[Wait]]) -> Cause:
    first = min(ranks, key=lambda r: (_time(history, r), r))
    told, thing = _for_them(history, ranks, stuck)
    inside = history.ranks[first].inside
    place = ""
    if inside is not None:
        place = f" inside {text_of(call_of(inside[1], first))} at {site(inside[0])}"
    ended = history.ranks[first].ended
    reason = plain(ended.message) if ended is not None else ""
    same = [r for r in ranks if ended_text(history, r) == ended_text(history, first)]
    summary = f"{ranks_text(same)} died ({reason or 'the process ended'}){place}{told}"
    finding = _finding(history, "rank_died", summary, tuple(ranks), thing)
    return Cause(finding, _time(history, first), frozenset({*ranks, *stuck}))


def _raised(history: History, ranks: list[int], stuck: Mapping[int, list[Wait]]) -> Cause:
    first = min(ranks, key=lambda r: (_time(history, r), r))
    ended = history.ranks[first].ended
    assert ended is not None
    same = [r for r in ranks if _kind_of_error(history, r) == _kind_of_error(history, first)]
    told, thing = _for_them(history, same, stuck)
    if ended.how == "failed":
        what = f'called pytest.fail("{plain(ended.message)}")'
    else:
        what = f"raised {error_text(ended.error, ended.message)}"
    place = f" at {site(ended.stack)}" if ended.stack else ""
    if ended.inside is not None:
        place += " out of a collective"
    summary = f"{ranks_text(same)} {what}{place}{told}"
    kind = "rank_raised"
    gone = history.ranks[first].works.destroyed
    if gone is not None and re.search(NO_GROUP, ended.message):
        kind = "use_after_destroy"
        summary += f"; process groups were destroyed at {site(gone.stack)}"
    finding = _finding(history, kind, summary, tuple(same), thing)
    hints = _hints(ended.message) + group_local_roots(history, ended.message)
    finding = replace(finding, hints=hints)
    return Cause(finding, _time(history, first), frozenset({*same, *stuck}))


def _kind_of_error(history: History, rank: int) -> tuple[str, str]:
    ended = history.ranks[rank].ended
    return (ended.how, ended.error) if ended is not None else ("", "")


def _hints(message: str) -> tuple[str, ...]:
    if NOT_MEMBER.search(message):
        return (
            "src and dst are global ranks; to give a rank inside the group, pass group_src or "
            "group_dst",
        )
    return ()


def group_local_roots(history: History, message: str) -> tuple[str, ...]:
    """Where a root was no member for some ranks: for whom it is one, but of another index.

    Their calls went through, from (or to) a member that was perhaps not meant.
    """
    if not NOT_MEMBER.search(message):
        return ()
    hints = []
    for log in history.groups.values():
        for call in (*log.recent, *(slot.lead for slot in log.slots)):
            root = call.root
            if root in log.ranks and root < log.size and log.ranks[root] != root:
                word = "src" if call.op in ("broadcast", "scatter") else "dst"
                hints.append(
                    f"{word}={root} at {site(call.stack)} is a member of {group_ref(log)}, but "
                    f"number {log.ranks.index(root)} of it: if an index inside the group is meant, "
                    f"its ranks {log.ranks[0]}-{log.ranks[-1]} have used the wrong {word}"
                )
                break
    return tuple(hints[:1])


def _finding(
    history: History, kind: str, summary: str, ranks: tuple[int, ...], thing: Open | None
) -> Finding:
    group, index, op = None, None, ""
    if isinstance(thing, Slot):
        group, index, op = group_ref(thing.log), thing.index + 1, thing.lead.op
    elif isinstance(thing, Message):
        op = thing.call.op
    elif thing is not None:
        op = "new_group"
    evidence: list[str] = []
    traces: dict[str, list[int]] = {}
    for rank in ranks:
        ended = history.ranks[rank].ended
        if ended is not None and ended.traceback:
            traces.setdefault(ended.traceback.rstrip(), []).append(rank)
    for trace, raised in list(traces.items())[:3]:
        owner = f"rank {raised[0]}'s" if len(raised) == 1 else f"{ranks_text(raised)}: the"
        evidence.append(f"{owner} traceback:\n{trace}")
    return Finding(
        kind,
        summary,
        group=group,
        index=index,
        op=op,
        ranks=ranks,
        sides=sides(history, ranks),
        evidence=tuple(evidence),
    )


def straggler_causes(history: History, stacks: Mapping[int, Stack]) -> list[Cause]:
    """At the deadline: ranks that are still in user code, with their stacks."""
    late = [r for r in history.everyone if not history.ranks[r].over]
    running = [r for r in late if history.ranks[r].waits() is None]
    if not running:
        return []
    told = []
    for rank in running[:4]:
        stack = stacks.get(rank, ())
        entry = blocked_in(history, rank)
        where = f" at {site(stack)}" if stack else ""
        if entry is not None and not stack:
            where = f" at {site(entry[0])}"
        told.append((rank, where))
    spots = {where for _, where in told}
    if len(spots) == 1:
        text = (
            f"{ranks_text(running)} {verb(running, 'was', 'were')} still in user code{told[0][1]}"
        )
    else:
        text = "; ".join(f"rank {r} was still in user code{where}" for r, where in told)
    waiting = [r for r in late if r not in running]
    waits = ""
    if waiting:
        waits = f"; rank {waiting[0]} {doing(history, waiting[0])}"
        if len(waiting) > 1:
            waits += f", as do ranks {numbers(waiting[1:])}" if len(waiting) < 9 else ", and more"
    finding = Finding(
        "straggler",
        f"straggler: {text} at the deadline{waits}",
        ranks=tuple(running),
        sides=tuple(
            _late_side(history, r, r in running, stacks.get(r, ())) for r in history.everyone
        ),
    )
    return [Cause(finding, float("inf"), frozenset(history.everyone))]


def _late_side(history: History, rank: int, late: bool, stack: Stack) -> Side:
    found = side(history, rank, guilty=late)
    if not late:
        return found
    entry = blocked_in(history, rank)
    note = "in user code"
    if entry is not None:
        note = f"inside {found.call}, which all its members have made"
    elif not history.ranks[rank].started:
        note = "had not entered the function"
    return replace(found, state="running", note=note, stack=stack or found.stack)
