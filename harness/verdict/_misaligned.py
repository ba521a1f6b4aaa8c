"""Calls that all went through and yet met the wrong partner: silent corruption.

Nothing hangs and nothing differs in signature, so only the calls' places can tell. Branches that
call the same collective from different lines are legal, and so are loops whose passes the ranks
walk at their own values. A finding at level ``"error"`` therefore needs proof:

* the same call (key) was made once by each of two ranks, at different positions, and
* it carries a *name* (a string loop value, or `harness.label`) that its partner lacks, or both
  ranks came by all calls in between by going forward through the program, so that no unseen loop
  can have brought the ranks to the same lines in turn.

Anything less is a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.record import Call
from harness.verdict._align import GAP, Keys, align, idle_names
from harness.verdict._cause import Cause, group_ref, sides
from harness.verdict._findings import Finding
from harness.verdict._group_log import GroupLog, Slot
from harness.verdict._history import History
from harness.verdict._mismatch import mismatch_cause
from harness.verdict._signature import UNLIKE, alike
from harness.verdict._sites import follows, is_number, key, lines, loop_evidence, same_place
from harness.verdict._text import call_text, loops_text, ranks_text, site


@dataclass(frozen=True, slots=True)
class Shift:
    """Rank ``a`` made the call at place ``i``, rank ``b`` the same one at place ``j``."""

    a: int
    b: int
    i: int
    j: int
    certain: bool
    same_calls: bool

    @property
    def place(self) -> int:
        """The first place at which the two are out of step."""
        return min(self.i, self.j)


def misalignment(history: History, log: GroupLog) -> list[Cause]:
    """Calls of a group that met the wrong partner: at most one error, or else one warning."""
    stretches = [*log.closed, tuple(slot for slot in log.slots if slot.met)]
    causes: list[Cause] = []
    for stretch in stretches:
        found = _labels(history, log, stretch) or _judge(history, log, stretch)
        if found is not None:
            causes.append(found)
    errors = [cause for cause in causes if cause.finding.level == "error"]
    if not errors and log.suspect is not None:
        causes.insert(0, mismatch_cause(history, log, log.suspect))
    return (errors or causes)[:1]


def stretch_matters(log: GroupLog, stretch: Sequence[Slot]) -> int:
    """What a closed stretch is worth keeping for: 2 a proved fault, 1 a suspicion, 0 nothing."""
    if any(_label_differs(slot) for slot in stretch):
        return 2
    shift = _find(log, stretch)
    return 0 if shift is None else 2 if shift.certain else 1


def _label_differs(slot: Slot) -> bool:
    labels = {call.label for call in slot.calls.values()}
    return len(labels - {None}) > 1


def _labels(history: History, log: GroupLog, stretch: Sequence[Slot]) -> Cause | None:
    """`harness.label` says what a call is for: two labels must not meet."""
    slot = next((slot for slot in stretch if _label_differs(slot)), None)
    if slot is None:
        return None
    by_label: dict[str, list[int]] = {}
    for rank, call in sorted(slot.calls.items()):
        by_label.setdefault(call.label or "no label", []).append(rank)
    told = " and ".join(f'"{label}" on {ranks_text(r)}' for label, r in by_label.items())
    number = slot.index + 1
    summary = (
        f"calls out of step: call {number} of {group_ref(log)}, {call_text(slot.lead)}, "
        f"joins {told}"
    )
    return _cause(history, log, slot, tuple(sorted(slot.calls)), summary, detail="label")


def _judge(history: History, log: GroupLog, stretch: Sequence[Slot]) -> Cause | None:
    shift = _find(log, stretch)
    if shift is None:
        return None
    slot = stretch[shift.place]
    ours, theirs = slot.calls[shift.a], slot.calls[shift.b]
    number = slot.index + 1
    where = _whereabouts(ours, theirs)
    summary = (
        f"calls out of step: call {number} of {group_ref(log)}, {call_text(ours)}, pairs rank "
        f"{shift.a} at {where[0]} with rank {shift.b} at {where[1]}"
    )
    own = stretch[shift.i].calls[shift.a]
    evidence = (
        f"{call_text(own)} at {_at(own)} is call {stretch[shift.i].index + 1} of rank {shift.a} "
        f"but call {stretch[shift.j].index + 1} of rank {shift.b}",
    )
    hints: tuple[str, ...] = ()
    if shift.same_calls:
        hints = ("same calls, other order: is a set or a dict walked in another order?",)
    guilty = _guilty(stretch, shift)
    found = _cause(history, log, slot, guilty, summary, evidence=evidence, hints=hints)
    if shift.certain:
        if alike(ours, theirs) == UNLIKE:  # pragma: no cover - such a slot is a mismatch
            return None
        return found
    finding = replace(
        found.finding,
        level="warning",
        summary=found.finding.summary.replace("calls out of step", "calls may be out of step"),
        hints=(*hints, "give the calls a harness.label() to have this decided"),
    )
    return replace(found, finding=finding)


def _guilty(stretch: Sequence[Slot], shift: Shift) -> tuple[int, ...]:
    """The minority that differs from the rest at that position; all, where there is no majority."""
    slot = stretch[shift.place]
    by_key: dict[object, list[int]] = {}
    for rank, call in sorted(slot.calls.items()):
        by_key.setdefault(key(call), []).append(rank)
    groups = sorted(by_key.values(), key=len)
    if len(groups) > 1 and len(groups[-1]) > len(groups[-2]):
        return tuple(sorted(rank for ranks in groups[:-1] for rank in ranks))
    return tuple(sorted(slot.calls))


def _cause(
    history: History,
    log: GroupLog,
    slot: Slot,
    guilty: tuple[int, ...],
    summary: str,
    *,
    detail: str = "",
    evidence: tuple[str, ...] = (),
    hints: tuple[str, ...] = (),
) -> Cause:
    finding = Finding(
        "misaligned_calls",
        summary,
        detail=detail,
        group=group_ref(log),
        index=slot.index + 1,
        op=slot.lead.op,
        ranks=guilty,
        sides=sides(history, guilty, slot.calls),
        evidence=evidence,
        hints=hints,
    )
    return Cause(finding, max(c.time for c in slot.calls.values()), frozenset(log.ranks))


def _at(call: Call) -> str:
    loops = loops_text(call.stack)
    return f"{site(call.stack)}{f' ({loops})' if loops else ''}"


def _whereabouts(a: Call, b: Call) -> tuple[str, str]:
    """Both call sites, or the callers where one helper is reached from two places."""
    if _at(a) != _at(b):
        return _at(a), _at(b)
    for x, y in zip(a.stack, b.stack, strict=False):
        if x != y:
            return f"{_at(a)} from {site((x,))}", f"{_at(b)} from {site((y,))}"
    return _at(a), _at(b)


# -- finding a shift ------------------------------------------------------------------------


def _find(log: GroupLog, stretch: Sequence[Slot]) -> Shift | None:
    """The first call that two members made at different positions, proved ones first."""
    if not any(not slot.same for slot in stretch):
        return None
    sequences = {r: [slot.calls[r] for slot in stretch] for r in log.ranks}
    keys = Keys(idle_names(sequences.values()))
    numbers = {r: [keys.number(c) for c in calls] for r, calls in sequences.items()}
    classes: dict[tuple[int, ...], list[int]] = {}
    for rank in log.ranks:
        classes.setdefault(tuple(numbers[rank]), []).append(rank)
    if len(classes) < 2:
        return None
    ordered = sorted(classes.values(), key=lambda ranks: (-len(ranks), ranks))
    a = ordered[0][0]
    found: list[Shift] = []
    for ranks in ordered[1:]:
        b = ranks[0]
        shift = _between(log, a, b, sequences[a], sequences[b], numbers[a], numbers[b])
        if shift is None:
            shift = _likely(a, b, sequences[a], sequences[b], keys)
        if shift is not None:
            found.append(shift)
    return min(found, key=lambda s: (not s.certain, s.place)) if found else None


def _between(
    log: GroupLog,
    a: int,
    b: int,
    ours: Sequence[Call],
    theirs: Sequence[Call],
    na: Sequence[int],
    nb: Sequence[int],
) -> Shift | None:
    count_a, count_b = Counter(na), Counter(nb)
    at_b = {number: j for j, number in enumerate(nb) if count_b[number] == 1}
    shifts: list[Shift] = []
    for i, number in enumerate(na):
        j = at_b.get(number, i)
        if i == j or count_a[number] != 1:
            continue
        if not loops_text(ours[i].stack) and (ours[i].op, lines(ours[i].stack)) in log.made_at:
            continue
        same_calls = _permuted(na, nb, min(i, j))
        level = _strength(ours, theirs, i, j, same_calls)
        if level:
            shifts.append(Shift(a, b, i, j, level == 2, same_calls))
    return min(shifts, key=lambda s: (not s.certain, s.place)) if shifts else None


def _permuted(na: Sequence[int], nb: Sequence[int], start: int) -> bool:
    """Whether from ``start`` on the two make the same calls for a while, in another order."""
    balance: Counter[int] = Counter()
    for x, y in zip(na[start:], nb[start:], strict=True):
        balance[x] += 1
        balance[y] -= 1
        if not any(balance.values()):
            return True
    return False


def _strength(ours: Sequence[Call], theirs: Sequence[Call], i: int, j: int, permuted: bool) -> int:
    """2: proved. 1: worth a warning. 0: nothing that a correct program would not do."""
    first, last = min(i, j), max(i, j)
    if _named(ours[i], theirs[i]) and _named(ours[j], theirs[j]):
        return 2
    window_a, window_b = ours[first : last + 1], theirs[first : last + 1]
    other_lines = any(
        not same_place(x.stack, y.stack) for x, y in zip(window_a, window_b, strict=True)
    )
    if other_lines:
        return 2 if _straight(window_a) and _straight(window_b) else 1
    # One line, and only counters differ: ranks that draw their own order of samples look like
    # this. Worth a word only if one of them walks in order and the other does not.
    if permuted and (_straight(window_a) != _straight(window_b)):
        return 1
    return 0


def _named(a: Call, b: Call) -> bool:
    """Whether two calls that met carry different names in the loops that they share."""
    if a.label is not None and b.label is not None and a.label != b.label:
        return True
    return any(
        not is_number(x) and not is_number(y) and not set("/\\") & {*x, *y}
        for _, x, y in loop_evidence(a.stack, b.stack).differ
    )


def _straight(calls: Sequence[Call]) -> bool:
    return all(follows(x.stack, y.stack) for x, y in pairwise(calls))


def _likely(
    a: int, b: int, ours: Sequence[Call], theirs: Sequence[Call], keys: Keys
) -> Shift | None:
    """No call is unique, yet a shift explains the sequences far better: worth a warning."""
    if len(ours) > 256:
        return None
    start = next(
        i
        for i, (x, y) in enumerate(zip(ours, theirs, strict=True))
        if keys.number(x) != keys.number(y)
    )
    ours, theirs = ours[start:], theirs[start:]
    found = align(ours, theirs, a_over=True, b_over=True, keys=keys)
    shifted = [
        (i, j) for i, j in found.pairs if i != j and keys.number(ours[i]) == keys.number(theirs[j])
    ]
    positional = sum(
        keys.cost(x, y, keys.number(x), keys.number(y)) for x, y in zip(ours, theirs, strict=True)
    )
    if not shifted or found.cost < GAP or positional < 2 * found.cost:
        return None
    i, j = shifted[0]
    return Shift(a, b, start + i, start + j, False, False)
