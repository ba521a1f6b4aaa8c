"""Works that nobody waits for, buffers used in flight, groups used after their end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from harness.record import P2P_OPS, Call
from harness.verdict._cause import Cause, ended_text, group_ref, side, sides
from harness.verdict._findings import Finding, GroupRef, Side
from harness.verdict._history import History
from harness.verdict._sites import lines
from harness.verdict._text import call_text, loops_text, ranks_text, site, verb
from harness.verdict._works import Doubled, Hazard, Misuse

MANY_GROUPS = 8

Item = TypeVar("Item")


def lifecycle_causes(history: History) -> list[Cause]:
    """All that went wrong between a call and its wait, on each rank by itself."""
    return [
        *_misuses(history),
        *_hazards(history),
        *_not_waited(history),
        *_doubled(history),
        *_outside(history),
        *_leaks(history),
    ]


def _alike(
    history: History,
    items_of: Callable[[int], Iterable[Item]],
    like: Callable[[Item], object],
) -> list[dict[int, list[Item]]]:
    """The same thing on several ranks is told once: items by rank, those alike together."""
    found: dict[object, dict[int, list[Item]]] = {}
    for rank in history.everyone:
        for item in items_of(rank):
            found.setdefault(like(item), {}).setdefault(rank, []).append(item)
    return list(found.values())


def _place(call: Call) -> tuple[object, ...]:
    return call.op, lines(call.stack)


def _ref(history: History, call: Call) -> GroupRef:
    return group_ref(history.log_of(call))


def _finding(
    history: History,
    kind: str,
    summary: str,
    calls: dict[int, Call],
    *,
    detail: str = "",
    level: str = "error",
    shown: dict[int, Side] | None = None,
    evidence: tuple[str, ...] = (),
    hints: tuple[str, ...] = (),
) -> Finding:
    """A finding about one call of each rank at fault."""
    first = calls[min(calls)]
    notes = {r: f"call {c.index + 1} of {_ref(history, c)}" for r, c in calls.items()}
    told = sides(history, calls, calls, notes)
    if shown is not None:
        told = tuple(shown.get(s.rank, s) for s in told)
    return Finding(
        kind,
        summary,
        level=level,
        detail=detail,
        group=_ref(history, first),
        index=first.index + 1,
        op=first.op,
        ranks=tuple(sorted(calls)),
        sides=told,
        evidence=evidence,
        hints=hints,
    )


def _at(call: Call) -> str:
    loops = loops_text(call.stack)
    return f"{site(call.stack)}{f' ({loops})' if loops else ''}"


# -- works ----------------------------------------------------------------------------------


def _not_waited(history: History) -> list[Cause]:
    """A rank returned, and calls it had made asynchronously were never waited for."""

    causes = []
    for by_rank in _alike(history, lambda rank: _left(history, rank), _place):
        calls = {rank: found[0] for rank, found in by_rank.items()}
        ranks = sorted(calls)
        call = calls[ranks[0]]
        most = max(map(len, by_rank.values()))
        times = f", {most} times" if most > 1 else ""
        summary = (
            f"work not waited: {ranks_text(ranks)} {verb(ranks, 'has', 'have')} returned and never "
            f"waited for {call_text(call)} at {_at(call)}{times}"
        )
        others = _failed_for_it(history, calls)
        finding = _finding(
            history,
            "work_not_waited",
            summary + others,
            calls,
            evidence=tuple(_uses(history, ranks, call)),
            hints=(
                "keep what the call returns and wait() for it before its buffer is used or the "
                "rank ends",
            ),
        )
        ends = [e.time for r in ranks if (e := history.ranks[r].ended) is not None]
        # A rank that leaves early also leaves its waits out: what it left out first is told.
        time = math.nextafter(max(ends), math.inf)
        causes.append(Cause(finding, time, frozenset({*ranks, *_peers(calls)})))
    return causes


def _left(history: History, rank: int) -> list[Call]:
    """The calls of a rank that returned without a wait for them."""
    state = history.ranks[rank]
    if not state.over or state.ended is None or state.ended.how != "returned":
        return []
    told = {id(m.call) for m in state.works.misuses}
    return [c for c in state.works.flying.values() if id(c) not in told]


def _uses(history: History, ranks: Sequence[int], call: Call) -> Iterable[str]:
    """Where a buffer was used whose call was never waited for."""
    for rank in ranks:
        for hazard in history.ranks[rank].works.hazards:
            if hazard.touched is not None and _place(hazard.call) == _place(call):
                how = _past(hazard.touched.how)
                yield f"rank {rank} has {how} its tensor at {site(hazard.touched.stack)}"
                break


def _peers(calls: dict[int, Call]) -> set[int]:
    return {c.peer for c in calls.values() if c.op in P2P_OPS and c.peer is not None}


def _failed_for_it(history: History, calls: dict[int, Call]) -> str:
    failed = sorted(r for r in _peers(calls) if history.ranks[r].failed and r not in calls)
    if not failed:
        return ""
    return f"; the other end failed on {ranks_text(failed)}"


# -- buffers --------------------------------------------------------------------------------


def _hazards(history: History) -> list[Cause]:
    def like(hazard: Hazard) -> object:
        used = hazard.touched.stack if hazard.touched is not None else ()
        other = hazard.other.stack if hazard.other is not None else ()
        return hazard.detail, hazard.sure, _place(hazard.call), lines(used), lines(other)

    def met(rank: int) -> Iterable[Hazard]:
        never = {id(call) for call in _left(history, rank)}
        return [h for h in history.ranks[rank].works.hazards if id(h.call) not in never]

    causes = []
    for by_rank in _alike(history, met, like):
        first = {rank: found[0] for rank, found in by_rank.items()}
        ranks = sorted(first)
        calls = {rank: hazard.call for rank, hazard in first.items()}
        shown = {rank: _hazard_side(history, hazard) for rank, hazard in first.items()}
        summary, hint = _hazard_text(ranks, first[ranks[0]])
        finding = _finding(
            history,
            "buffer_hazard",
            summary,
            calls,
            detail=first[ranks[0]].detail,
            level="error" if any(h.sure for h in first.values()) else "warning",
            shown=shown,
            evidence=_hazard_evidence(first[ranks[0]]),
            hints=(hint,),
        )
        time = min(hazard.time for hazard in first.values())
        causes.append(Cause(finding, time, frozenset(ranks)))
    return causes


def _hazard_side(history: History, hazard: Hazard) -> Side:
    """The rank at the place that is at fault: where it touched the buffer, or the later call."""
    call = hazard.call
    if hazard.touched is not None:
        how = f"{hazard.touched.how} by {hazard.touched.by}" if hazard.touched.by else "touched"
        found = side(history, call.rank, call=call, guilty=True)
        note = f"its buffer is {how} here, before the wait; the call is at {_at(call)}"
        return replace(found, stack=hazard.touched.stack or call.stack, note=note)
    at = hazard.other or call
    note = f"call {at.index + 1} of its group"
    return side(history, call.rank, call=at, note=note, guilty=True)


def _hazard_text(ranks: Sequence[int], hazard: Hazard) -> tuple[str, str]:
    call = hazard.call
    who = ranks_text(ranks)
    what = f"{call_text(call)} at {_at(call)}"
    if hazard.touched is not None:
        touched = hazard.touched
        by = f" ({touched.by})" if touched.by else ""
        return (
            f"buffer used in flight: {who} {verb(ranks, 'has', 'have')} {_past(touched.how)} a "
            f"tensor of {what} at {site(touched.stack)}{by}, before waiting for it",
            "wait() for the call first, or work on another tensor",
        )
    if hazard.detail == "overlap":
        assert hazard.other is not None
        return (
            f"buffer shared in flight: on {who} {call_text(hazard.other)} at {_at(hazard.other)} "
            f"uses memory that {what} is still working on",
            "give each call that is in flight a buffer of its own, or wait() in between",
        )
    if hazard.detail == "outputs":
        return (
            f"outputs share memory: {what} on {who} writes several results to the same place",
            "give each rank's result a tensor of its own: [torch.empty_like(x) for _ in "
            "range(n)], not [buf] * n",
        )
    return (
        f"strided tensor: {what} on {who} is not dense in memory, and gloo moves the bytes "
        f"between its elements",
        "pass x.contiguous() (and copy the result back)",
    )


def _past(how: str) -> str:
    return {"written": "written to", "read": "read", "resized": "resized"}.get(how, how)


def _hazard_evidence(hazard: Hazard) -> tuple[str, ...]:
    if hazard.other is None:
        return ()
    return (
        f"{call_text(hazard.call)} at {_at(hazard.call)} was not waited for when "
        f"{call_text(hazard.other)} at {_at(hazard.other)} began",
    )


def _doubled(history: History) -> list[Cause]:
    def like(found: Doubled) -> object:
        return _place(found.second), lines(found.first.stack), found.second.group

    causes = []
    for by_rank in _alike(history, lambda r: history.ranks[r].works.doubled, like):
        # A loop that is only now known to walk over things says so of its later passes.
        first = {r: next((d for d in found if d.sure), found[0]) for r, found in by_rank.items()}
        sure = any(found.sure for found in first.values())
        ranks = sorted(first)
        one, two = first[ranks[0]].first, first[ranks[0]].second
        if not sure and lines(one.stack) == lines(two.stack):
            continue
        again = f" and {_at(two)}" if _at(two) != _at(one) else ", in two passes"
        finding = _finding(
            history,
            "aliased_reduction",
            f"reduced twice: {call_text(two)} in place on one and the same tensor, with no write "
            f"between, at {_at(one)}{again} on {ranks_text(ranks)}",
            {rank: found.second for rank, found in first.items()},
            level="error" if sure else "warning",
            evidence=(
                f"calls {one.index + 1} and {two.index + 1} of {_ref(history, two)} reduce the "
                f"same memory",
            ),
            hints=("if two names stand for one tensor, clone() it or reduce it once",),
        )
        time = min(found.second.time for found in first.values())
        causes.append(Cause(finding, time, frozenset(ranks)))
    return causes


# -- groups ---------------------------------------------------------------------------------


def _misuses(history: History) -> list[Cause]:
    def like(misuse: Misuse) -> object:
        early = misuse.call.call < misuse.destruction.call
        return early, _place(misuse.call), lines(misuse.destruction.stack)

    causes = []
    for by_rank in _alike(history, lambda r: history.ranks[r].works.misuses, like):
        first = {rank: found[0] for rank, found in by_rank.items()}
        ranks = sorted(first)
        misuse = first[ranks[0]]
        call, destruction = misuse.call, misuse.destruction
        where = site(destruction.stack)
        if call.call < destruction.call:
            detail = "in_flight"
            summary = (
                f"group destroyed in use: {ranks_text(ranks)} destroyed {_ref(history, call)} at "
                f"{where} while {call_text(call)} at {_at(call)} had not been waited for"
            )
            hint = "wait() for the calls of a group before it is destroyed"
        else:
            detail = "used"
            summary = (
                f"group used after its end: {ranks_text(ranks)} called {call_text(call)} at "
                f"{_at(call)} on {_ref(history, call)}, destroyed at {where}"
            )
            hint = "destroy a group when nothing uses it any more"
        finding = _finding(
            history,
            "use_after_destroy",
            summary,
            {rank: found.call for rank, found in first.items()},
            detail=detail,
            hints=(hint,),
        )
        time = min(max(m.call.time, m.destruction.time) for m in first.values())
        causes.append(Cause(finding, time, frozenset(ranks)))
    return causes


def _outside(history: History) -> list[Cause]:
    causes = []
    for by_rank in _alike(
        history, lambda r: history.ranks[r].works.outside, lambda n: (n.op, lines(n.stack))
    ):
        first = {rank: found[0] for rank, found in by_rank.items()}
        ranks = sorted(first)
        record = first[ranks[0]]
        summary = (
            f"call on a group of others: {ranks_text(ranks)} called {record.op} at "
            f"{site(record.stack)} on a group that {verb(ranks, 'it is', 'they are')} not a member "
            f"of; torch does nothing there"
        )
        told = {
            rank: replace(
                side(history, rank, guilty=True),
                call=f"{record.op}(...)",
                note="not a member of the group",
                stack=found.stack,
            )
            for rank, found in first.items()
        }
        finding = Finding(
            "non_member_call",
            summary,
            op=record.op,
            ranks=tuple(ranks),
            sides=tuple(told.get(r, side(history, r)) for r in history.everyone),
            hints=("guard the call by membership, or pass the group that this rank is in",),
        )
        causes.append(Cause(finding, min(n.time for n in first.values()), frozenset(ranks)))
    return causes


def _leaks(history: History) -> list[Cause]:
    causes = []
    for by_rank in _alike(
        history,
        lambda r: history.ranks[r].works.alive.values(),
        lambda c: (lines(c.stack), c.ranks),
    ):
        most = max(map(len, by_rank.values()))
        if most < MANY_GROUPS:
            continue
        first = {rank: found[0] for rank, found in by_rank.items()}
        ranks = sorted(first)
        creation = first[ranks[0]]
        summary = (
            f"groups pile up: {most} groups {list(creation.ranks)} were made at "
            f"{site(creation.stack)} and none was destroyed"
        )
        finding = Finding(
            "group_leak",
            summary,
            level="warning",
            group=GroupRef("", creation.ranks),
            op="new_group",
            ranks=tuple(ranks),
            sides=sides(history, ranks, first),
            evidence=tuple(f"rank {r} {ended_text(history, r)}" for r in ranks[:1]),
            hints=("make the group once and keep it, or destroy_process_group() it after use",),
        )
        causes.append(Cause(finding, creation.time, frozenset(ranks)))
    return causes
