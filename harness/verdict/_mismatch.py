"""Calls that meet at one position of a group and do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.record import Call
from harness.verdict._cause import Cause, error_text, group_ref, sides
from harness.verdict._findings import Finding, Side
from harness.verdict._group_log import GroupLog, Slot
from harness.verdict._history import History
from harness.verdict._signature import Mismatch, compare
from harness.verdict._sites import forward, is_number, lines, loop_evidence
from harness.verdict._text import call_text, loops_text, ranks_text, site

WORDS = {
    "reduce_op": "reduce op",
    "root": "root",
    "dtype": "dtype",
    "shape": "shape",
    "splits": "splits",
}


def mismatch_cause(history: History, log: GroupLog, slot: Slot) -> Cause:
    """The finding for a position at which the members' calls differ."""
    found = compare(slot.calls, log.ranks)
    if found is None:  # pragma: no cover - only unlike slots are handed in
        raise ValueError("the calls of this position agree")
    finding = _call_mismatch(history, log, slot, found)
    if found.detail != "op":
        finding = _argument_mismatch(history, log, slot, found)
    finding = _in_cleanup(finding, slot)
    ordered = sorted(slot.calls.values(), key=lambda c: (c.time, c.rank))
    first = found.values.get(ordered[0].rank)
    time = next((c.time for c in ordered if found.values.get(c.rank) != first), ordered[-1].time)
    return Cause(finding, time, frozenset(log.ranks))


def _by_value(found: Mismatch) -> dict[str, list[int]]:
    values: dict[str, list[int]] = {}
    for rank in sorted(found.values):
        values.setdefault(found.values[rank], []).append(rank)
    return values


def at_fault(found: Mismatch) -> tuple[int, ...]:
    """The minority where there is one (three ranks or more), else all that disagree."""
    if found.guilty:
        return found.guilty
    values = sorted(_by_value(found).values(), key=len)
    if len(values) == 2 and len(values[0]) < len(values[1]):
        return tuple(values[0])
    return tuple(sorted(found.values))


def _call_mismatch(history: History, log: GroupLog, slot: Slot, found: Mismatch) -> Finding:
    ref, number = group_ref(log), slot.index + 1
    told = []
    for ranks in _by_value(found).values():
        call = slot.calls[ranks[0]]
        told.append(
            f"{named_text(call, found.values[ranks[0]])} at {site(call.stack)} on {ranks_text(ranks)}"
        )
    summary = f"different collectives meet: call {number} of {ref} is {_joined(told)}"
    hints = order_hints(slot) or passed_hints(slot)
    return Finding(
        "call_mismatch",
        summary,
        group=ref,
        index=number,
        op=found.values[min(found.values)],
        ranks=at_fault(found),
        sides=sides(history, at_fault(found), slot.calls),
        evidence=place_counts(log, slot),
        hints=hints,
    )


def named_text(call: Call, name: str) -> str:
    """The call under the name that the user wrote (``all_gather_object``)."""
    return call_text(call) if call.op == name else f"{name}(...)"


def _joined(told: list[str]) -> str:
    return told[0] + "".join(f", but {text}" for text in told[1:])


def _argument_mismatch(history: History, log: GroupLog, slot: Slot, found: Mismatch) -> Finding:
    ref, number = group_ref(log), slot.index + 1
    values = _by_value(found)
    op = next(iter(slot.calls.values())).op
    if len(values) <= 4:
        told = " and ".join(
            f"{value} on {ranks_text(ranks)} ({site(slot.calls[ranks[0]].stack)})"
            for value, ranks in values.items()
        )
    else:
        (value, ranks), *_ = values.items()
        told = f"{len(values)} different values, {value} on {ranks_text(ranks)} among them"
    if found.pairs:
        told = f"{'; '.join(found.pairs[:2])} ({told})"
    word = WORDS.get(found.detail, found.detail)
    start = "arguments differ" if found.level == "error" else "suspicious shapes"
    colon = ": " if found.pairs else " "
    summary = f"{start}: call {number} of {ref}, {op}, has {word}{colon}{told}"
    if found.level == "warning":
        summary += "; as many elements, so the values are mixed without an error"
    guilty = at_fault(found)
    return Finding(
        "argument_mismatch",
        summary,
        level=found.level,
        detail=found.detail,
        group=ref,
        index=number,
        op=op,
        ranks=guilty,
        sides=sides(history, guilty, slot.calls),
        evidence=found.pairs + loops_differ(slot),
        hints=_argument_hints(found),
    )


def _argument_hints(found: Mismatch) -> tuple[str, ...]:
    if found.detail == "root":
        return ("src and dst must be the same global rank on every member of the group",)
    if found.detail == "dtype":
        return ("convert to one dtype before the call; Python and numpy numbers differ in dtype",)
    return ()


def loops_differ(slot: Slot) -> tuple[str, ...]:
    """``rank 0 is at e=0, rank 1 at e=1``, where the calls come from different passes of a loop."""
    calls = sorted(slot.calls.values(), key=lambda c: c.rank)
    texts = {c.rank: loops_text(c.stack) for c in calls}
    if len(set(texts.values())) < 2 or len(texts) > 8:
        return ()
    return (", ".join(f"rank {r} is at {t or 'no loop'}" for r, t in texts.items()),)


def order_hints(slot: Slot) -> tuple[str, ...]:
    """Both sides are in the same loop over names, at different ones: is it a set or a dict?"""
    calls = list(slot.calls.values())
    for call in calls[1:]:
        for name, ours, theirs in loop_evidence(calls[0].stack, call.stack).differ:
            if not is_number(ours) and not is_number(theirs):
                return (
                    f"both are in one loop, at {name}={ours} and {name}={theirs}: is it a set or "
                    f"a dict that ranks walk in another order?",
                )
    return ()


def passed_hints(slot: Slot) -> tuple[str, ...]:
    """One side stands further on in the program than the other: did it leave that call out?"""
    calls = list(slot.calls.values())
    for one in calls:
        for other in calls:
            if one.op != other.op and forward(one.stack, other.stack):
                return (
                    f"rank {other.rank} is past {site(one.stack)} in the program: did it leave "
                    f"that {one.op} out?",
                )
    return ()


def place_counts(log: GroupLog, slot: Slot) -> tuple[str, ...]:
    """How often each of the lines that meet here had been passed before by all members."""
    found = []
    seen = set()
    for call in slot.calls.values():
        place = (call.op, lines(call.stack))
        count = log.made_at.get(place)
        if count and place not in seen:
            seen.add(place)
            found.append(f"before, all members made {call.op} at {site(call.stack)} {count} times")
    return tuple(found)


def _in_cleanup(finding: Finding, slot: Slot) -> Finding:
    """A call made while an exception is under way is that exception's doing."""
    handling = {r: c for r, c in slot.calls.items() if c.during}
    if not handling or len(handling) == len(slot.calls):
        return finding
    rank, call = min(handling.items())
    error, _, message = call.during.partition(": ")
    return replace(
        finding,
        kind="rank_raised",
        detail="cleanup",
        ranks=tuple(sorted(handling)),
        summary=(
            f"rank {rank} raised {error_text(error, message)}{raised_text(call)} and, with it "
            f"under way, called {call_text(call)} at {site(call.stack)}; {finding.summary}"
        ),
        sides=raised_sides(finding.sides, handling),
    )


def raised_text(call: Call) -> str:
    """Where the exception came from that was under way as the call was made."""
    return f" at {site(call.raised_at)}" if call.raised_at else ""


def raised_sides(sides: tuple[Side, ...], handling: Mapping[int, Call]) -> tuple[Side, ...]:
    """Sides whose ranks are shown where their exception came from, not where they ended up."""
    told = []
    for side in sides:
        call = handling.get(side.rank)
        if call is not None and call.raised_at:
            note = f"raised {call.during.split(':')[0]} here, then called it at {site(call.stack)}"
            stack = (*call.raised_at, *call.stack)
            side = replace(side, stack=stack, note=note, guilty=True)
        told.append(side)
    return tuple(told)
