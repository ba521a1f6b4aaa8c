"""Collectives of one group: who skipped a call, whose calls do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.record import Call
from harness.verdict._align import Alignment, Keys, align, idle_names
from harness.verdict._cause import (
    Cause,
    call_of,
    doing_all,
    error_text,
    group_ref,
    side,
    sides,
    state_of,
    waiting_text,
)
from harness.verdict._deadlock import Wait
from harness.verdict._findings import Finding
from harness.verdict._group_log import GroupLog, Slot
from harness.verdict._history import History
from harness.verdict._misaligned import misalignment
from harness.verdict._mismatch import mismatch_cause, raised_sides, raised_text
from harness.verdict._signature import UNLIKE, alike, compare
from harness.verdict._sites import Lines, forward, lines, once_only
from harness.verdict._text import call_text, loops_text, ranks_text, site, verb

LEFT = ("returned", "skipped", "xfailed")


@dataclass(frozen=True, slots=True)
class Skip:
    """A call that some members made and others left out, going on to a later one.

    ``position`` is where those who made it have it in their sequence.
    """

    position: int
    having: dict[int, Call]
    lacking: tuple[int, ...]
    instead: dict[int, Call]
    sure_place: bool = True
    evened: bool = False
    """Whether as many calls were added later, so that the counts agree again."""


def group_causes(history: History, log: GroupLog, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """What is wrong in one group's sequence of collectives; the earliest fault only."""
    short = _ended_short(history, log)
    waiting = {
        rank
        for rank, waits in stuck.items()
        if any(isinstance(w.thing, Slot) and w.thing.log is log for w in waits)
    }
    if log.unlike is None and not short and not waiting:
        return misalignment(history, log)
    found = _first_skip(history, log)
    unlike = log.unlike
    # A permutation or a shift that evened out before the proof comes first, if there was one.
    for cause in misalignment(history, log):
        place = (cause.finding.index or 0) - 1
        before_skip = found is None or found.evened or place < found.position
        before_unlike = unlike is None or place <= unlike.index
        if cause.finding.level == "error" and before_skip and before_unlike:
            return [cause]
    if unlike is not None and (found is None or unlike.index < found.position):
        found = _skip_by_habit(log, unlike) or _skip_by_place(log, unlike)
        if found is None:
            return [mismatch_cause(history, log, unlike)]
    if found is not None:
        return [skip_cause(history, log, found)]
    return _tail(history, log, short)


def _ended_short(history: History, log: GroupLog) -> list[int]:
    """Members that have ended without a call that another member made."""
    most = max(log.count.values(), default=0)
    return [r for r in log.ranks if log.count[r] < most and history.ranks[r].over]


def _tail(history: History, log: GroupLog, short: list[int]) -> list[Cause]:
    """Nothing speaks for an earlier skip: the first call that an ended member did not make."""
    gone = [r for r in short if _left(history, r)]
    if not gone:
        return []
    position = min(log.count[r] for r in gone)
    place = position - log.base
    if not 0 <= place < len(log.slots):
        return []
    for before in list(log.slots)[:place]:
        found = None if before.one_place else _ahead(log, before)
        if found is not None:
            return [skip_cause(history, log, found)]
    slot = log.slots[place]
    lacking = tuple(r for r in gone if r not in slot.calls)
    return [skip_cause(history, log, Skip(position, dict(slot.calls), lacking, {}))]


def _left(history: History, rank: int) -> bool:
    ended = history.ranks[rank].ended
    return ended is not None and ended.how in LEFT


def _first_skip(history: History, log: GroupLog) -> Skip | None:
    """Align the members' sequences from the first position where they differ."""
    start = next((place for place, slot in enumerate(log.slots) if not slot.same), None)
    if start is None:
        return None
    sequences = {r: log.sequence(r)[start:] for r in log.ranks}
    keys = Keys(idle_names(sequences.values()))
    numbers = {r: tuple(map(keys.number, calls)) for r, calls in sequences.items()}
    alike: dict[tuple[int, ...], int] = {}
    for sequence in numbers.values():
        alike[sequence] = alike.get(sequence, 0) + 1
    reference = min(log.ranks, key=lambda r: (-len(numbers[r]), -alike[numbers[r]], r))
    over = {r: history.ranks[r].over for r in log.ranks}
    cache: dict[tuple[tuple[int, ...], bool], Alignment] = {}
    aligned: dict[int, Alignment] = {}
    for rank in log.ranks:
        if rank == reference:
            continue
        known = (numbers[rank], over[rank])
        found = cache.get(known)
        if found is None:
            found = cache[known] = align(
                sequences[reference],
                sequences[rank],
                a_over=over[reference],
                b_over=over[rank],
                keys=keys,
            )
        aligned[rank] = found
    return _earliest(log, log.base + start, reference, sequences, numbers, aligned)


def _earliest(
    log: GroupLog,
    first: int,
    reference: int,
    sequences: Mapping[int, list[Call]],
    numbers: Mapping[int, tuple[int, ...]],
    aligned: Mapping[int, Alignment],
) -> Skip | None:
    """The earliest gap that a later exact match, at another position, bears out."""
    ours = numbers[reference]
    events: list[tuple[int, int, bool]] = []
    for rank, found in aligned.items():
        exact = [(i, j) for i, j in found.pairs if i != j and ours[i] == numbers[rank][j]]
        if not exact:
            continue
        last_i, last_j = exact[-1]
        events.extend((i, rank, True) for i in found.only_a[:1] if i < last_i)
        events.extend((j, rank, False) for j in found.only_b[:1] if j < last_j)
    if not events:
        return None
    place, culprit, lacks = min(events)
    if lacks:
        key, call = ours[place], sequences[reference][place]
        lacking = tuple(r for r, found in aligned.items() if place in found.only_a)
        having = {reference: call}
        for rank, found in aligned.items():
            having.update((rank, sequences[rank][j]) for i, j in found.pairs if i == place)
    else:
        key, call = numbers[culprit][place], sequences[culprit][place]
        having = {
            r: sequences[r][j]
            for r, found in aligned.items()
            for j in found.only_b
            if numbers[r][j] == key and j == place
        }
        lacking = tuple(r for r in log.ranks if r not in having and len(numbers[r]) > place)
    instead = {r: sequences[r][place] for r in lacking if place < len(sequences[r])}
    # The same key just before: one of several passes was left out, and none is told from another.
    previous = sequences[reference][place - 1] if lacks and place else None
    if previous is None and first > 0 and log.recent:
        previous = log.recent[-1]
    repeated = previous is not None and lines(previous.stack) == lines(call.stack)
    sure = not repeated or bool(loops_text(call.stack))
    found = aligned[culprit]
    evened = len(found.only_a) == len(found.only_b)
    return Skip(first + place, having, tuple(sorted(lacking)), instead, sure, evened)


def _skip_by_habit(log: GroupLog, slot: Slot) -> Skip | None:
    """Calls do not go together, and earlier passes show which of them is usually made first."""
    place = slot.index - log.base
    if place:
        last = log.slots[place - 1].lead if log.slots[place - 1].one_place else None
    else:
        last = log.recent[-1] if log.recent else None
    usual = log.follows.get(lines(last.stack)) if last is not None else None
    if not usual:
        return None
    due = {r: c for r, c in slot.calls.items() if lines(c.stack) in usual}
    early = {r: c for r, c in slot.calls.items() if r not in due}
    if not due or not early:
        return None
    after = log.follows.get(lines(next(iter(due.values())).stack), set())
    if not all(lines(c.stack) in after for c in early.values()):
        return None
    return Skip(slot.index, due, tuple(sorted(early)), early)


def _skip_by_place(log: GroupLog, slot: Slot) -> Skip | None:
    """Arguments differ, and one side stands beyond the other's line, which it never made."""
    found = compare(slot.calls, log.ranks)
    if found is None or found.detail not in ("shape", "dtype", "splits"):
        return None
    return _ahead(log, slot)


def _ahead(log: GroupLog, slot: Slot) -> Skip | None:
    """Of two places that meet, one is beyond the other in the program, and was never made before."""
    places: dict[Lines, dict[int, Call]] = {}
    for rank, call in slot.calls.items():
        places.setdefault(lines(call.stack), {})[rank] = call
    if len(places) != 2:
        return None
    one, two = places.values()
    for due, early in ((one, two), (two, one)):
        ahead = not any((c.op, lines(c.stack)) in log.made_at for c in early.values()) and all(
            forward(a.stack, b.stack) and once_only(a.stack, b.stack)
            for a in due.values()
            for b in early.values()
        )
        if ahead:
            return Skip(slot.index, due, tuple(sorted(early)), early)
    return None


def skip_cause(history: History, log: GroupLog, skip: Skip) -> Cause:
    """The finding for a call that some members never made."""
    ref = group_ref(log)
    maker = min(skip.having)
    call = skip.having[maker]
    number = skip.position + 1
    loops = loops_text(call.stack)
    at = f"{site(call.stack)}{f' ({loops})' if loops else ''}"
    waiting = [
        s.rank
        for s in (side(history, r, call=c) for r, c in skip.having.items())
        if s.state == "waiting"
    ]
    tail = waiting_text(waiting) if waiting else f"{ranks_text(skip.having)} made it"
    if not waiting and all(state_of(history, r) == "waiting" for r in skip.having):
        tail += f" and {doing_all(history, skip.having)}"
    summary = (
        f"rank-dependent skip: {ranks_text(skip.lacking)} of {ref} never made call {number}, "
        f"{call_text(call)} at {at}, and {doing_all(history, skip.lacking)}; {tail}"
    )
    evidence = _skip_evidence(log, skip, number)
    at_calls: dict[int, Call] = {**skip.having, **skip.instead}
    notes = dict.fromkeys(skip.having, f"call {number} of {ref}")
    notes |= dict.fromkeys(skip.instead, f"its call {number} of {ref} is this one")
    times = [
        skip.instead[r].time if r in skip.instead else _ended_time(history, r) for r in skip.lacking
    ]
    finding = Finding(
        "missing_participant",
        summary,
        group=ref,
        index=number,
        op=call.op,
        ranks=skip.lacking,
        sides=sides(history, skip.lacking, at_calls, notes),
        evidence=evidence,
        hints=_skip_hints(history, log, skip),
    )
    return Cause(_during(finding, skip), min(times), frozenset(log.ranks))


def _ended_time(history: History, rank: int) -> float:
    ended = history.ranks[rank].ended
    if ended is not None:
        return ended.time
    calls = [call_of(thing, rank) for _, thing in history.ranks[rank].waits() or ()]
    return max((call.time for call in calls if call is not None), default=0.0)


def _skip_evidence(log: GroupLog, skip: Skip, number: int) -> tuple[str, ...]:
    lines_: list[str] = []
    for rank, call in sorted(skip.instead.items()):
        loops = loops_text(call.stack)
        lines_.append(
            f"call {number} of rank {rank} is {call_text(call)} at {site(call.stack)}"
            f"{f' ({loops})' if loops else ''}"
        )
    counts: dict[int, list[int]] = {}
    for rank, count in log.count.items():
        counts.setdefault(count, []).append(rank)
    if len(counts) > 1:
        made = ", ".join(
            f"{ranks_text(ranks)} made {count}" for count, ranks in sorted(counts.items())
        )
        lines_.append(f"calls on {group_ref(log)}: {made}")
    empty = next(iter(skip.having.values())).op in ("barrier", "monitored_barrier")
    corrupted = [] if empty else [r for r in skip.instead if _compatible(skip, r)]
    if corrupted:
        lines_.append(
            f"the calls from {number} on pair one position off: {ranks_text(corrupted)} "
            f"{verb(corrupted, 'has', 'have')} received wrong values"
        )
    if not skip.sure_place:
        lines_.append("which of the passes through this line was left out cannot be told")
    return tuple(lines_)


def _compatible(skip: Skip, rank: int) -> bool:
    return alike(next(iter(skip.having.values())), skip.instead[rank]) != UNLIKE


def _skip_hints(history: History, log: GroupLog, skip: Skip) -> tuple[str, ...]:
    makers = set(skip.having)
    named = [g for g in history.groups.values() if g is not log and g.name and g.size < log.size]
    for other in named:
        if set(other.ranks) == makers:
            return (
                f"the callers are exactly the {other.name} group {list(other.ranks)}: "
                f"was group= forgotten or the wrong group passed?",
            )
    # Where a member has not come that far, all callers are still of one group.
    for other in sorted(named, key=lambda g: g.size):
        late = set(other.ranks) - makers
        if makers < set(other.ranks) and all(state_of(history, r) == "running" for r in late):
            return (
                f"all callers are of the {other.name} group {list(other.ranks)}: was group= "
                f"forgotten or the wrong group passed?",
            )
    return ()


def _during(finding: Finding, skip: Skip) -> Finding:
    """A stray call made while an exception is under way is that exception's doing."""
    handling = {r: c for r, c in skip.instead.items() if c.during}
    if not handling or any(c.during for c in skip.having.values()):
        return finding
    rank, call = min(handling.items())
    error, _, message = call.during.partition(": ")
    return replace(
        finding,
        kind="rank_raised",
        detail="cleanup",
        ranks=(rank,),
        summary=(
            f"rank {rank} raised {error_text(error, message)}{raised_text(call)} and, with it "
            f"under way, called {call_text(call)} at {site(call.stack)}, where the others make "
            f"{call_text(next(iter(skip.having.values())))}"
        ),
        sides=raised_sides(finding.sides, handling),
    )
