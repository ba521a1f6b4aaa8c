"""Loops that ranks walk in another order, or over other things, where all took the same way."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.explain._parting import Parting, differences
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
                labelled = finding.detail == "label"
                pair = _Pair(own, call, mine, paths[side.rank], way, calls.values(), labelled)
                yield from _loops(pair)


@dataclass(frozen=True)
class _Pair:
    """A call that two ranks make at the same point, each in its way."""

    own: Call
    other: Call
    mark: Mark
    mine: Path
    theirs: Path
    calls: Collection[Call]
    labelled: bool
    """Whether the user's own labels say that these are different calls."""


def _loops(pair: _Pair) -> Iterator[Parting]:
    spots = list(pair.mark.chain)
    for a, b in zip(reversed(pair.own.stack), reversed(pair.other.stack), strict=False):
        if (a.file, a.line, a.function) != (b.file, b.line, b.function):
            return
        spot = _spot_of(a, spots, pair.mine)
        if spot is None:
            continue
        names = [n for (n, v), (_, w) in zip(a.loop, b.loop, strict=False) if v != w]
        found = _loop(names[0], spot, spots, pair.mine) if names else None
        if found is None:
            continue
        if _decides(pair, found, spot, a, names[0]):
            yield Parting(*found, "order")
        return


def _decides(pair: _Pair, loop: Spot, spot: Spot, frame: Frame, name: str) -> bool:
    """Whether the call differs because the loop does, as far as that can be told.

    Ranks walk over data of their own by design. So both must walk over some of the same things, the
    call must be about them, and nothing else may have come out differently in this pass.
    """
    names, over = _bound(pair.mine, loop, name)
    held = [_held(way, loop) for way in (pair.mine, pair.theirs)]
    if held[0] and held[0] == held[1] and not any(_partial(text) for text in held[0].values()):
        return False  # the same things in the same order
    mine, theirs = (
        _walked(values, over) | _passed(pair.calls, call.rank, frame, name)
        for values, call in zip(held, (pair.own, pair.other), strict=True)
    )
    numbers = all(each.lstrip("-").isdigit() for each in mine | theirs)
    known = all(over in values and not _partial(values[over]) for values in held)
    used = bool(names & _names(pair.mine.visits[spot[0]].steps[spot[1]].node))
    common = pair.labelled or bool(mine & theirs)
    if not used and (numbers or not common):
        return False
    if not common and (numbers or known):
        return False
    return not any(_in_pass(f, pair, loop, spot) for f in differences(pair.mine, pair.theirs))


def _in_pass(found: Parting, pair: _Pair, loop: Spot, spot: Spot) -> bool:
    """Whether a difference is on the way from the head of the loop to the call."""
    context, point = found.context, found.point
    if context != loop[0]:
        inner = [each for each, _ in pair.mark.chain]
        return context in inner and inner.index(context) > inner.index(loop[0])
    visit = pair.mine.visits[context]
    around = visit.steps[loop[1]].loops
    passes = len(loop[1])
    return (
        visit.steps[loop[1]].loop is not None
        and point[:2] != loop[1][:2]
        and visit.steps[point].loops[: len(around)] == around
        and point[2:passes] == spot[1][2:passes]
    )


def _held(way: Path, loop: Spot) -> Mapping[str, str]:
    """What is known of what the loop walks over."""
    visit = way.visits.get(loop[0])
    return {} if visit is None else visit.values.get(loop[1], {})


def _partial(text: str) -> bool:
    """Whether a text leaves out some of what it is about."""
    return "..." in text or text.endswith(" object")


def _walked(values: Mapping[str, str], over: str) -> set[str]:
    """The elements that are shown of what is walked over; else of what it is made of, all of that."""
    texts = [values[over]] if over in values else []
    if not texts and _all_of(over):
        texts = list(values.values())
    shown = (part for t in texts for part in t.partition(": ")[2].removesuffix(", ...").split(", "))
    return {each.strip("'") for each in shown if each and "..." not in each}


_ALL_OF = (
    "sorted",
    "reversed",
    "enumerate",
    "list",
    "tuple",
    "set",
    "zip",
    "keys",
    "values",
    "items",
)


def _all_of(over: str) -> bool:
    """Whether an expression takes all of what is in it: no slice, filter or unknown function."""
    for part in ast.walk(ast.parse(over or "0", mode="eval")):
        if isinstance(part, ast.Subscript | Comprehension):
            return False
        if isinstance(part, ast.Call) and ast.unparse(part.func).split(".")[-1] not in _ALL_OF:
            return False
    return True


def _passed(calls: Collection[Call], rank: int, frame: Frame, name: str) -> set[str]:
    """The values that the loop's variable had as the rank made calls."""
    return {
        value
        for call in calls
        if call.rank == rank
        for each in call.stack
        if (each.file, each.function) == (frame.file, frame.function)
        for other, value in each.loop
        if other == name
    }


def _bound(way: Path, loop: Spot, name: str) -> tuple[set[str], str]:
    """The names that the loop binds together with this one, and what it walks over."""
    node = way.visits[loop[0]].steps[loop[1]].node
    for part in ast.walk(node):
        if isinstance(part, ast.For | ast.AsyncFor | ast.comprehension):
            names = _names(part.target)
            if name in names:
                return names, ast.unparse(part.iter)
    return {name}, ""


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
