"""Where two ranks parted: the last point both came to before one of them went on to a third.

A point may be that only if what each rank did next fits a decision taken there: an ``if`` with another
outcome, a loop that ended earlier, an exception on one of them. Else nothing is said.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from harness.explain._arms import arm
from harness.explain._paths import Context, Mark, Path, Point, Spot, Visit
from harness.explain._plan import Decision, decisions, expressions
from harness.explain._source import Comprehension, Step

Values = dict[str, str]


@dataclass(frozen=True)
class Parting:
    """The spot, and what kind of decision was taken there."""

    context: Context
    point: Point
    kind: str


def parting(goer: Path, mark: Mark, other: Path) -> Parting | None:
    """Where ``other`` left the way on which ``goer`` came to make a call."""
    fork = _fork(goer, mark.chain, other)
    if fork is not None:
        return _decided(goer, other, fork)
    if not mark.chain:
        return None
    # Both came to the statement of the call; the decision is within it.
    spot = mark.chain[-1]
    if other.full or other.visits[spot[0]].marks.get(spot[1], 0) > mark.ordinal:
        return None
    return _decided(goer, other, _Fork(spot, spot))


def parting_before(goer: Path, chain: tuple[Spot, ...], other: Path) -> Parting | None:
    """Where ``other`` left the way on which ``goer`` came to the end of ``chain``."""
    fork = _fork(goer, chain, other)
    return None if fork is None else _decided(goer, other, fork)


def failure(raiser: Path, chain: tuple[Spot, ...], other: Path) -> Parting | None:
    """Where the ways parted that led to an exception, or the statement that raised on one only."""
    found = parting_before(raiser, chain, other)
    if found is not None or not chain or other.full:
        return found
    context, point = chain[-1]
    if not other.been_at((context, point)) or point in other.visits[context].raised:
        return None
    if other.inside((context, point)):
        return None
    step = raiser.visits[context].steps[point]
    return Parting(context, point, "assert" if step.kind == "assert" else "try")


@dataclass(frozen=True)
class _Fork:
    """The last spot that both came to, and the next on the way of one that the other never saw.

    They are the same where the way goes on within the statement.
    """

    last: Spot
    missed: Spot


def _fork(goer: Path, chain: tuple[Spot, ...], other: Path) -> _Fork | None:
    if other.full:  # it may have come there later
        return None
    outer: Spot | None = None
    for context, point in chain:
        theirs = other.visits.get(context)
        if theirs is None:
            # It came to the statement, but did not call this function from there.
            return None if outer is None else _Fork(outer, outer)
        if point not in theirs.points:
            mine = goer.visits[context]
            before = mine.order[: mine.points[point]]
            common = next((p for p in reversed(before) if p in theirs.points), None)
            return None if common is None else _Fork((context, common), (context, point))
        outer = context, point
    return None


def _decided(goer: Path, other: Path, fork: _Fork) -> Parting | None:
    """The spot with its kind, if a decision there sent the two ranks different ways."""
    context, point = fork.last
    mine, theirs = goer.visits[context], other.visits[context]
    step = mine.steps[point]
    if (point in theirs.raised) != (point in mine.raised):
        return _deeper(goer, other, fork.last, step)
    raised = _raised_before(mine, point) if step.kind == "except" else point
    errors = {visit.raised[raised].error for visit in (mine, theirs) if raised in visit.raised}
    if len(errors) > 1:
        return _otherwise(goer, other, (context, raised))
    if fork.missed == fork.last:
        return _within(goer, other, fork.last, step)
    if step.kind == "comprehension" and theirs.left == "returned":
        return Parting(context, point, "comprehension")  # who took its elements wanted no more
    if step.kind in COMPOUND:
        went, they_went = arm(mine, point), arm(theirs, point)
        if went and they_went and went != they_went and not _on_its_way(theirs, step, fork, mine):
            if step.kind == "case":
                return Parting(context, _match_of(mine, point), "match")
            return Parting(context, point, step.kind)
    return None


def _match_of(visit: Visit, point: Point) -> Point:
    """The statement that a ``case`` belongs to."""
    case = visit.steps[point].node
    before = visit.order[: visit.points[point]]
    return next(p for p in reversed(before) if case in getattr(visit.steps[p].node, "cases", ()))


COMPOUND = ("if", "while", "for", "case")


def _on_its_way(theirs: Visit, step: Step, fork: _Fork, mine: Visit) -> bool:
    """Whether the rank may yet come to what it missed: it is still in its arm of the statement."""
    if theirs.left or theirs.at is None:
        return False
    node = step.node
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    here, missed = theirs.steps[theirs.at].line, mine.steps[fork.missed[1]].line
    return first <= here <= last and not first <= missed <= last


def _deeper(goer: Path, other: Path, spot: Spot, step: Step) -> Parting:
    """An exception on one of the two: where it came from, as far as both were followed there."""
    raiser, sound = (goer, other) if spot[1] in goer.visits[spot[0]].raised else (other, goer)
    raised = raiser.visits[spot[0]].raised[spot[1]]
    chains = [
        chain
        for chain in raiser.failures
        if spot in chain and raiser.visits[chain[-1][0]].raised.get(chain[-1][1]) == raised
    ]
    for chain in sorted(chains, key=len, reverse=True):
        if chain[-1] != spot:
            found = failure(raiser, chain, sound)
            if found is not None:
                return found
    return Parting(*spot, "assert" if step.kind == "assert" else "try")


def _raised_before(visit: Visit, handler: Point) -> Point:
    """The statement whose exception came to a handler."""
    before = visit.order[: visit.points[handler]]
    return next((p for p in reversed(before) if p in visit.raised), handler)


def _otherwise(goer: Path, other: Path, spot: Spot) -> Parting:
    """Both raised, but not the same: where they parted on the way to that."""
    for chain in sorted((c for c in goer.failures if spot in c), key=len, reverse=True):
        found = parting_before(goer, chain[chain.index(spot) :], other)
        if found is not None:
            return found
    return Parting(*spot, "try")


def _within(goer: Path, other: Path, spot: Spot, step: Step) -> Parting | None:
    """A decision within one statement: a condition, a short circuit, another function called."""
    context, point = spot
    mine, theirs = goer.visits[context], other.visits[context]
    if step.kind in ("if", "while", "for", "comprehension"):  # all of it on one line
        return Parting(context, point, step.kind)
    unknown: list[Decision] = []
    found = decisions(step.node)
    for node in found:
        differs = _differs(node, mine.values.get(point, {}), theirs.values.get(point, {}))
        if differs:
            return Parting(context, point, kind_of(node))
        if differs is None:
            unknown.append(node)
    if len(unknown) == 1:
        return Parting(context, point, kind_of(unknown[0]))
    called, they_called = (set(v.entered.get(point, ())) for v in (mine, theirs))
    if called - they_called and they_called - called:
        return Parting(context, point, "call")
    return _registered(goer, other, spot)


def _differs(node: Decision, values: Values, others: Values) -> bool | None:
    """Whether a decision within a statement came out differently; None if that is not known."""
    texts = _deciding(node)
    known = [text for text in texts if text in values and text in others]
    if any(values[text] != others[text] for text in known):
        return True
    return None if len(known) < len(texts) else False


@functools.lru_cache(maxsize=4096)
def _deciding(node: Decision) -> list[str]:
    if isinstance(node, Comprehension):
        return expressions(node.generators[0].iter)
    tests = [node.test] if isinstance(node, ast.IfExp) else node.values[:-1]
    return [ast.unparse(test) for test in tests]


def _registered(goer: Path, other: Path, spot: Spot) -> Parting | None:
    """A function that is called later, by torch, was handed over by one of the ranks only.

    A hook, say: the decision is the one in whose body its name stands.
    """
    context, point = spot
    called, they_called = (path.visits[context].entered.get(point, []) for path in (goer, other))
    names = {
        name.rpartition(".")[2] for name in called if called.count(name) != they_called.count(name)
    }
    if not names:
        return None
    for found in reversed(list(differences(goer, other))):
        visit, theirs = goer.visits[found.context], other.visits[found.context]
        node = visit.steps[found.point].node
        arms = {arm(visit, found.point), arm(theirs, found.point)}
        if "body" in arms and any(
            isinstance(part, ast.Name | ast.Attribute) and _name(part) in names
            for statement in getattr(node, "body", ())
            for part in ast.walk(statement)
        ):
            return found
    return None


def _name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def kind_of(node: Decision) -> str:
    """A decision within an expression as a reader would name it."""
    if isinstance(node, ast.IfExp):
        return "if else"
    if isinstance(node, ast.BoolOp):
        return "and" if isinstance(node.op, ast.And) else "or"
    return "comprehension"


def differences(first: Path, second: Path) -> Iterator[Parting]:
    """Where two ranks, both there, decided differently; in the first one's order."""
    for context, mine in first.visits.items():
        theirs = second.visits.get(context)
        if theirs is None:
            continue
        for point in mine.order:
            if point not in theirs.points:
                continue
            step = mine.steps[point]
            if (point in mine.raised) != (point in theirs.raised):
                yield Parting(context, point, "assert" if step.kind == "assert" else "try")
            elif step.kind in COMPOUND:
                ways = arm(mine, point), arm(theirs, point)
                if all(ways) and ways[0] != ways[1]:
                    yield Parting(context, point, step.kind)
            else:
                values, others = mine.values.get(point, {}), theirs.values.get(point, {})
                for node in decisions(step.node):
                    if isinstance(node, ast.IfExp) and _differs(node, values, others):
                        yield Parting(context, point, kind_of(node))
                        break
