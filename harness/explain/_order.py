"""Loops that ranks walk in another order, or over other things, where all took the same way."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from harness.explain._parting import Parting
from harness.explain._paths import Mark, Path, Point, Spot, Visit
from harness.explain._plan import decisions
from harness.explain._source import COMPREHENSIONS, Comprehension
from harness.record import Call, Frame, Record
from harness.verdict import Finding


def order_parting(
    finding: Finding, records: Sequence[Record], paths: Mapping[int, Path]
) -> Iterator[Parting]:
    """The outermost loop around a call that has another value on another rank in the same pass."""
    calls = {(r.rank, r.call): r for r in records if isinstance(r, Call)}
    for side in finding.sides:
        if side.number is None or side.rank not in paths:
            continue
        mine = paths[side.rank].marks.get(side.number)
        own = calls.get((side.rank, side.number))
        if mine is None or own is None:
            continue
        for rank, way in paths.items():
            if rank == side.rank:
                continue
            same = next((m for m in way.marks.values() if m.name == mine.name), None)
            call = None if same is None else calls.get((rank, same.number))
            if call is not None:
                yield from _loops(own, call, mine, paths[side.rank], way)


def _loops(own: Call, call: Call, mark: Mark, mine: Path, theirs: Path) -> Iterator[Parting]:
    spots = list(mark.chain)
    for a, b in zip(reversed(own.stack), reversed(call.stack), strict=False):
        if (a.file, a.line, a.function) != (b.file, b.line, b.function):
            return
        spot = _spot_of(a, spots, mine)
        if spot is None:
            continue
        differ = [n for (n, v), (_, w) in zip(a.loop, b.loop, strict=False) if v != w]
        if not differ:
            continue
        found = _loop(differ[0], spot, spots, mine)
        if found is None:
            continue
        context, point = found
        values = [
            w.visits[context].values.get(point) for w in (mine, theirs) if context in w.visits
        ]
        if len(values) == 2 and values[0] and values[0] == values[1]:
            continue  # the same things in the same order
        yield Parting(context, point, "order")


def _spot_of(frame: Frame, spots: list[Spot], way: Path) -> Spot | None:
    for spot in reversed(spots):
        visit = way.visits[spot[0]]
        if (visit.file, visit.function.name) == (frame.file, frame.function):
            return spot
    return None


def _loop(name: str, spot: Spot, spots: list[Spot], way: Path) -> Spot | None:
    """Where the loop that binds the name was entered."""
    context, point = spot
    visit = way.visits[context]
    if visit.function.name.rpartition(".")[2] in COMPREHENSIONS:
        # Its iterable is evaluated by the function around it.
        before = spots.index(spot) - 1
        return spots[before] if before >= 0 else None
    step = visit.steps[point]
    for depth, loop in enumerate(step.loops):
        head = _head(visit, loop, point, depth)
        if head is None:
            continue
        target = getattr(visit.steps[head].node, "target", None)
        if target is not None and name in _names(target):
            return context, head
    # Since 3.12 a comprehension is part of the statement.
    inlined = (d for d in decisions(step.node) if isinstance(d, Comprehension))
    if any(name in _names(g.target) for d in inlined for g in d.generators):
        return spot
    return None


def _head(visit: Visit, loop: tuple[int, int], point: Point, depth: int) -> Point | None:
    passes = point[2 : 2 + depth]
    head = (*loop, *passes, 0)
    return head if head in visit.points else None


def _names(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
