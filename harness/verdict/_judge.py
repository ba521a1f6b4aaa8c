"""The judge: takes records in, says whether a fault is proved, and which one came first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.record import Call, Record, Stack
from harness.verdict._cause import Cause, error_text, text_of
from harness.verdict._collectives import group_causes
from harness.verdict._cycles import cycle_causes, dead_end
from harness.verdict._deadlock import is_stuck, stuck_ranks
from harness.verdict._findings import Finding
from harness.verdict._groups import creation_causes
from harness.verdict._history import History
from harness.verdict._lifecycle import lifecycle_causes
from harness.verdict._misaligned import stretch_matters
from harness.verdict._p2p import message_causes
from harness.verdict._races import between_threads, race_causes
from harness.verdict._ranks import (
    errors_out_of_calls,
    left_by_error,
    rank_causes,
    straggler_causes,
)
from harness.verdict._text import plain, site
from harness.verdict._values import SYMPTOMS, value_causes

LONGEST_LIST = 8


class Judge:
    """Judges the records of one world.

    Records of one rank come in that rank's order, across ranks in any order: the verdict depends
    on what is known, not on how it came.
    """

    def __init__(self, world_size: int, *, buffered_sends: bool = False) -> None:
        self._history = History(world_size, stretch_matters, buffered_sends)
        self._proved = False
        self._ended_clean = False

    def add(self, record: Record) -> None:
        """Take in one record."""
        self._history.add(record)

    def fault(self) -> bool:
        """Whether a fault is provable from what is known; cheap enough to ask after each batch."""
        history = self._history
        if self._proved or history.fatal:
            return True
        if history.touched:
            touched = sorted(history.touched)
            history.touched.clear()
            self._proved = is_stuck(history, touched)
            if not self._proved and history.all_over and not self._ended_clean:
                self._proved = any(f.level == "error" for f in self.findings())
                self._ended_clean = not self._proved
        return self._proved

    def settled(self) -> bool:
        """Whether every rank has ended or is blocked: nothing more can change the picture."""
        return all(state.over or state.held_up() for state in self._history.ranks)

    def awaited(self) -> tuple[int, ...]:
        """Ranks in user code, as it seems, that may be blocked out of sight.

        Blocked ranks wait for them, or a call of theirs waits for a rank that has ended: gloo may
        block in a send or receive itself, before there is a work to wait for.
        """
        found: set[int] = set()
        ranks = self._history.ranks
        for state in ranks:
            waits = state.waits()
            for _, thing in waits or ():
                found.update(thing.missing())
            if waits is None and any(
                not thing.met and any(ranks[r].over for r in thing.missing())
                for thing in state.open.values()
            ):
                found.add(state.rank)
        return tuple(sorted(r for r in found if not ranks[r].over and not ranks[r].waits()))

    def next_run(self) -> None:
        """Forget a finished clean run; groups and the counts of creations stay."""
        self._history.clear()
        self._proved = self._ended_clean = False

    def findings(
        self, *, deadline: bool = False, stacks: Mapping[int, Stack] | None = None
    ) -> list[Finding]:
        """Judge everything known; the first finding is the cause.

        At the ``deadline`` ranks still in user code become stragglers, if nothing else is wrong;
        ``stacks`` are what those ranks showed when they were asked.
        """
        history = self._history
        history.tidy()
        stuck = stuck_ranks(history, history.everyone)
        causes: list[Cause] = []
        for log in history.groups.values():
            causes += between_threads(group_causes(history, log, stuck), log)
        causes += creation_causes(history, stuck)
        causes += message_causes(history, stuck)
        causes += rank_causes(history, stuck)
        causes += cycle_causes(history, stuck)
        causes += lifecycle_causes(history)
        causes += race_causes(history)
        causes += value_causes(history)
        errors = [cause for cause in causes if cause.finding.level == "error"]
        warnings = [cause for cause in causes if cause.finding.level != "error"]
        if not errors and (history.all_over or stuck or history.fatal):
            errors = errors_out_of_calls(history, stuck) or dead_end(history, stuck)
        if not errors and deadline:
            errors = left_by_error(history, stuck) or straggler_causes(history, stacks or {})
        errors = list(self._told(_merged(_symptoms_last(errors))))
        warnings = [c for c in warnings if not _explained(c, errors)]
        return [cause.finding for cause in (*errors, *sorted(warnings, key=_order))]

    def _told(
        self, errors: list[Cause], others_are: frozenset[int] = frozenset()
    ) -> Iterator[Cause]:
        """The first cause with all that follows from it folded in; then what is independent.

        ``others_are`` are ranks of findings told before.
        """
        if not errors:
            return
        first, *others = sorted(errors, key=_order)
        independent = [c for c in others if not c.involved & first.involved]
        folded = [c for c in others if c.involved & first.involved]
        apart = others_are.union(*(c.involved for c in independent))
        # A raise is told by `_errors` already.
        ends = {"rank_raised", "rank_died"}
        also = [c for c in folded if c.finding.kind not in ends or c.finding.detail]
        secondary = [*self._errors(first, apart), *(f"also: {c.finding.summary}" for c in also)]
        more = len(secondary) - LONGEST_LIST
        shown = secondary[:LONGEST_LIST] + ([f"and {more} more"] if more > 0 else [])
        # Where ranks stand that another finding is about would only distract here.
        sides = tuple(replace(s, stack=()) if s.rank in apart else s for s in first.finding.sides)
        yield replace(first, finding=replace(first.finding, sides=sides, secondary=tuple(shown)))
        yield from self._told(independent, others_are | first.involved)

    def _errors(self, cause: Cause, apart: frozenset[int]) -> Iterator[str]:
        """Errors of ranks which the cause explains: out of collectives, or after it."""
        own = cause.finding.ranks if cause.finding.kind in ("rank_raised", "rank_died") else ()
        for state in self._history.ranks:
            if state.rank in apart:
                continue
            told = set()
            for failed, call in state.failed:
                text = error_text(failed.error, failed.message)
                told.add((failed.error, failed.message))
                yield f"rank {state.rank}: {text}{_out_of(call)}"
            ended = state.ended
            if ended is None or state.rank in own or (ended.error, ended.message) in told:
                continue
            if ended.how == "died":
                inside = state.inside
                where = ""
                if inside is not None:
                    where = f" inside a call at {site(inside[0])}"
                yield f"rank {state.rank}: died ({plain(ended.message)}){where}"
            elif ended.how in ("raised", "failed"):
                where = f" at {site(ended.stack)}" if ended.stack else ""
                yield f"rank {state.rank}: {error_text(ended.error, ended.message)}{where}"


def _out_of(call: object) -> str:
    return f", out of {text_of(call)} at {site(call.stack)}" if isinstance(call, Call) else ""


def _order(cause: Cause) -> tuple[float, int, str]:
    finding = cause.finding
    return cause.time, finding.index or 0, finding.summary


def _explained(warning: Cause, errors: list[Cause]) -> bool:
    """Whether a proved fault is about the same call, or makes a doubtful one clear."""
    for finding in (error.finding for error in errors):
        if finding.group is not None and finding.index is not None:
            at = finding.group, finding.index
            if at == (warning.finding.group, warning.finding.index):
                return True
    # That one tensor is reduced twice may be meant, and here something else is wrong.
    return bool(errors) and warning.finding.kind == "aliased_reduction"


def _symptoms_last(errors: list[Cause]) -> list[Cause]:
    """A wrong value comes of what went wrong before or beside it; a raise may come of the value."""
    late = ("rank_raised", "rank_died", "deadlock", *SYMPTOMS)
    roots = [c for c in errors if c.finding.kind not in late]
    last = math.nextafter(max((cause.time for cause in roots), default=0.0), math.inf)
    return [replace(c, time=max(c.time, last)) if c.finding.kind in SYMPTOMS else c for c in errors]


def _merged(errors: list[Cause]) -> list[Cause]:
    """The same fault in several groups of one kind (each dp group, say) is told once."""
    merged: dict[tuple[object, ...], Cause] = {}
    for cause in sorted(errors, key=_order):
        finding = cause.finding
        name = finding.group.name if finding.group is not None else ""
        places = frozenset(
            (s.stack[0].file, s.stack[0].line) for s in finding.sides if s.call and s.stack
        )
        like = (finding.kind, finding.detail, name, finding.index, finding.op, places)
        first = merged.get(like)
        if first is None or not name or first.involved & cause.involved:
            key: tuple[object, ...] = like if first is None else (*like, finding.group)
            merged[key] = cause
            continue
        merged[like] = replace(
            first,
            involved=first.involved | cause.involved,
            finding=_both(first.finding, finding),
        )
    return list(merged.values())


def _both(first: Finding, other: Finding) -> Finding:
    known = {s.rank for s in first.sides if s.call or s.guilty}
    members = other.group.ranks if other.group is not None else ()
    theirs = {s.rank: s for s in other.sides if s.guilty or s.rank in members}
    sides = tuple(
        theirs.get(s.rank, s) if s.rank not in known or s.rank in theirs else s for s in first.sides
    )
    return replace(
        first,
        ranks=tuple(sorted({*first.ranks, *other.ranks})),
        sides=sides,
        evidence=(*first.evidence, f"likewise: {other.summary}"),
    )
