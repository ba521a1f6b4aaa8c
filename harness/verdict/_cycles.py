"""Ranks that wait for one another: a deadlock, or a skip that shows in the order of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.record import P2P_OPS, Call
from harness.verdict._cause import Cause, call_of, doing, group_ref, number_text, sides, text_of
from harness.verdict._collectives import Skip, skip_cause
from harness.verdict._deadlock import Wait, cycle_from
from harness.verdict._findings import Finding
from harness.verdict._group_log import Slot
from harness.verdict._groups import never_made
from harness.verdict._history import History
from harness.verdict._p2p import other_tag, wrong_neighbour
from harness.verdict._rank_state import CreationSlot
from harness.verdict._signature import ALIKE, alike
from harness.verdict._sites import by_counter, forward, in_loop, lines, same_place
from harness.verdict._streams import Message
from harness.verdict._text import numbers, ranks_text, site


def cycle_causes(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """One cause for each separate cycle of waits."""
    causes: list[Cause] = []
    seen: set[int] = set()
    waits = dict(stuck)
    for start in sorted(stuck):
        cycle = cycle_from(history, waits, start)
        ranks = {wait.rank for wait in cycle}
        if not cycle or ranks & seen or not _closes(cycle):
            continue
        seen |= ranks
        if any(isinstance(w.thing, Message) and other_tag(history, w.thing) for w in cycle):
            continue  # told as two tags that miss each other
        causes.append(_cause(history, cycle, waits))
    return causes


def _closes(cycle: list[Wait]) -> bool:
    return cycle[0].rank in cycle[-1].absent


def _cause(history: History, cycle: list[Wait], stuck: Mapping[int, list[Wait]]) -> Cause:
    mismatch = group_mismatch(history, cycle)
    if mismatch is not None:
        return mismatch
    following = {w.rank: cycle[(k + 1) % len(cycle)] for k, w in enumerate(cycle)}
    passed = [w for w in cycle if _went_past(w, following[w.rank])]
    for wait in sorted(passed, key=_time):
        if isinstance(wait.thing, Slot):
            return _skip(history, wait, stuck, cycle)
    creation = next((w for w in cycle if isinstance(w.thing, CreationSlot)), None)
    if creation is not None and isinstance(creation.thing, CreationSlot):
        lacking = [r for r in creation.thing.missing() if r in stuck]
        found = never_made(history, creation.thing, lacking)
        return _with_edges(found, history, cycle)
    return wrong_neighbour(history, cycle) or _deadlock(history, cycle)


def _went_past(wait: Wait, other: Wait) -> bool:
    """Whether the rank waited for is beyond this call in the program, so that it skipped it."""
    call = call_of(wait.thing, wait.rank)
    if call is None or not forward(call.stack, other.stack):
        return False
    ours, theirs = wait.thing, other.thing
    if not isinstance(ours, Slot) or not isinstance(theirs, Slot) or ours.log is theirs.log:
        return True
    # Each rank may enter its groups in an order of its own: that a counter goes up is only known
    # from passes that both groups have made.
    place = (call.op, lines(call.stack)) if isinstance(call, Call) else None
    seen = all(place in thing.log.made_at for thing in (ours, theirs))
    return seen or not by_counter(call.stack, other.stack)


def group_mismatch(history: History, cycle: list[Wait]) -> Cause | None:
    """One call of the program, made once, was given another group on some ranks."""
    calls: dict[int, Call] = {}
    groups: dict[str, list[int]] = {}
    for wait in cycle:
        call = call_of(wait.thing, wait.rank)
        if not isinstance(wait.thing, Slot) or not isinstance(call, Call):
            return None
        calls[wait.rank] = call
        groups.setdefault(str(group_ref(wait.thing.log)), []).append(wait.rank)
    first = next(iter(calls.values()))
    for call in calls.values():
        if not same_place(call.stack, first.stack) or in_loop(call.stack):
            return None
        if alike(first, call) != ALIKE or call.label != first.label:
            return None
    if len({call.group for call in calls.values()}) < 2:
        return None
    if any(rank not in history.log_of(c).ranks for c in calls.values() for rank in calls):
        return None  # no one group would serve them all
    told = ", but ".join(f"{name} on {ranks_text(r)}" for name, r in groups.items())
    finding = Finding(
        "group_mismatch",
        f"groups differ: {text_of(first)} at {site(first.stack)} is made on {told}; each waits "
        f"for the other",
        op=first.op,
        ranks=tuple(sorted(calls)),
        sides=sides(history, calls),
        evidence=edges(history, cycle),
        hints=("pass the same group on every rank that this call is for",),
    )
    return Cause(finding, max(map(_time, cycle)), frozenset(calls))


def _skip(
    history: History, wait: Wait, stuck: Mapping[int, list[Wait]], cycle: list[Wait]
) -> Cause:
    slot = wait.thing
    assert isinstance(slot, Slot)
    own = slot.calls[wait.rank]
    lacking = tuple(
        r
        for r in slot.missing()
        if r in stuck and any(forward(own.stack, w.stack) for w in stuck[r])
    )
    found = skip_cause(history, slot.log, Skip(slot.index, dict(slot.calls), lacking, {}))
    return _with_edges(found, history, cycle)


def _with_edges(found: Cause, history: History, cycle: list[Wait]) -> Cause:
    evidence = (*found.finding.evidence, *edges(history, cycle))
    return replace(found, finding=replace(found.finding, evidence=evidence))


def _time(wait: Wait) -> float:
    call = call_of(wait.thing, wait.rank)
    return call.time if call is not None else 0.0


def edge_text(history: History, wait: Wait, to: int) -> str:
    """``rank 0 waits in barrier() (call 2 of world [0, 1]) at a.py:3 for rank 1``."""
    number = number_text(wait.thing, history)
    call = text_of(call_of(wait.thing, wait.rank))
    return (
        f"rank {wait.rank} waits in {call}{f' ({number})' if number else ''} at "
        f"{site(wait.stack)} for rank {to}"
    )


def edges(history: History, cycle: list[Wait]) -> tuple[str, ...]:
    """The cycle, one wait a line."""
    return tuple(
        edge_text(history, wait, cycle[(k + 1) % len(cycle)].rank) for k, wait in enumerate(cycle)
    )


def _deadlock(history: History, cycle: list[Wait]) -> Cause:
    start = min(range(len(cycle)), key=lambda k: cycle[k].rank)
    cycle = cycle[start:] + cycle[:start]
    ranks = tuple(sorted(w.rank for w in cycle))
    told = list(edges(history, cycle))
    if len(cycle) > 4:
        shown = "; ".join(told[:2]) + f"; and so on round ranks {numbers(ranks)}"
    else:
        shown = "; ".join(told)
    calls = [c for w in cycle if isinstance(c := call_of(w.thing, w.rank), Call)]
    p2p = [c for c in calls if c.op in P2P_OPS]
    detail = "p2p" if len(p2p) == len(calls) else "mixed" if p2p else "groups"
    first = cycle[0].thing
    hints = _hints(detail, p2p, ranks)
    finding = Finding(
        "deadlock",
        f"deadlock: {shown}",
        detail=detail,
        group=group_ref(first.log) if isinstance(first, Slot) else None,
        index=first.index + 1 if isinstance(first, Slot) else None,
        op=calls[0].op if calls else "",
        ranks=ranks,
        sides=sides(history, ranks),
        evidence=tuple(told),
        hints=hints,
    )
    return Cause(finding, max(map(_time, cycle)), frozenset(ranks))


def _hints(detail: str, p2p: list[Call], ranks: tuple[int, ...]) -> tuple[str, ...]:
    if detail == "groups":
        return (
            f"{ranks_text(ranks)} enter groups in different order: every rank must issue the "
            f"collectives of overlapping groups in one order",
        )
    if detail == "p2p" and all(c.op == "send" for c in p2p):
        return (
            "a send may block until its receive is posted: let one side receive first, or use "
            "isend/irecv or batch_isend_irecv",
        )
    if detail == "p2p":
        return ("let one side send first, or use isend/irecv or batch_isend_irecv",)
    return ()


def dead_end(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """Waits that lead to a rank that has ended, for when nothing else explains them."""
    if not stuck:
        return []
    path = cycle_from(history, dict(stuck), min(stuck))
    last = path[-1]
    to = min((r for r in last.absent if history.ranks[r].over), default=last.absent[0])
    ranks = tuple(sorted(w.rank for w in path))
    told = [*edges(history, path)[:-1], edge_text(history, last, to)]
    finding = Finding(
        "deadlock",
        f"deadlock: {'; '.join(told[:4])}, which {doing(history, to)}",
        ranks=(to,),
        sides=sides(history, (to,)),
        evidence=tuple(told),
    )
    return [Cause(finding, max(map(_time, path)), frozenset({*ranks, to}))]
