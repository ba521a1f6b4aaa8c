"""A parting as a reader wants it: what each rank did there, and the values that decided it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from harness.explain._arms import arm
from harness.explain._explanation import Divergence, Way
from harness.explain._parting import Parting
from harness.explain._paths import Path, Point, Visit
from harness.explain._plan import decisions
from harness.explain._source import Comprehension, Step, source_line

MOST_VALUES = 4
MOST_WAYS = 6

_Values = tuple[tuple[str, str], ...]


def shown(parting: Parting, paths: Mapping[int, Path]) -> Divergence:
    """The divergence, for all ranks that came there."""
    there: dict[int, Visit] = {}
    for rank, way in sorted(paths.items()):
        visit = way.visits.get(parting.context)
        if visit is not None and parting.point in visit.points:
            there[rank] = visit
    outcomes = {rank: _outcome(parting, visit) for rank, visit in there.items()}
    values = _values(parting, there, outcomes)
    alike = _alike(outcomes, values)
    while len(alike) > MOST_WAYS and any(values.values()):
        # What has another value on each rank, such as its number, would hide who went which way.
        texts = dict.fromkeys(text for held in values.values() for text, _ in held)
        most = max(texts, key=lambda t: len({dict(held).get(t) for held in values.values()}))
        values = {r: tuple(h for h in held if h[0] != most) for r, held in values.items()}
        alike = _alike(outcomes, values)
    first = next(iter(there.values()))
    step = first.steps[parting.point]
    return Divergence(
        first.file,
        step.line,
        first.function.name,
        source_line(first.file, step.line),
        parting.kind,
        tuple(Way(tuple(ranks), outcome, held) for (outcome, held), ranks in alike.items()),
        _note(parting, there, paths),
    )


def _alike(
    outcomes: Mapping[int, str], values: Mapping[int, _Values]
) -> dict[tuple[str, _Values], list[int]]:
    """The ranks of each outcome with its values."""
    alike: dict[tuple[str, _Values], list[int]] = {}
    for rank, outcome in outcomes.items():
        alike.setdefault((outcome, values[rank]), []).append(rank)
    return alike


def _outcome(parting: Parting, visit: Visit) -> str:
    point, kind = parting.point, parting.kind
    raised = visit.raised.get(point)
    if raised is not None and kind in ("try", "assert"):
        return f"raised {raised}"
    if kind == "try":
        return "went on"
    if kind == "assert":
        return "True"
    if kind in ("for", "comprehension"):
        return _passes(visit, point)
    if kind == "if" or kind == "while":
        return _truth(visit, point)
    if kind == "call":
        called = dict.fromkeys(n.rpartition(".")[2] for n in visit.entered.get(point, ()))
        return f"calls {', '.join(called)}" if called else "calls neither"
    if kind == "order":
        return ""
    if kind == "match":
        return _matched(visit, point)
    return _inner_truth(visit, point)


def _truth(visit: Visit, point: Point) -> str:
    told = {"body": "True", "else": "False", "raised": "raised"}.get(arm(visit, point))
    return told or visit.values.get(point, {}).get(visit.steps[point].test, "")


def _matched(visit: Visit, point: Point) -> str:
    """The case of a ``match`` that was taken."""
    case = ""
    following = visit.after(point)
    while following is not None and visit.steps[following].kind == "case":
        case = f"case at line {visit.steps[following].line}"
        following = visit.after(following)
    return case


def _inner_truth(visit: Visit, point: Point) -> str:
    """The outcome of the first condition in the statement that is known."""
    values = visit.values.get(point, {})
    for node in decisions(visit.steps[point].node):
        if isinstance(node, Comprehension):
            continue
        test = node.test if isinstance(node, ast.IfExp) else node.values[0]
        found = values.get(ast.unparse(test))
        if found in ("True", "False"):
            return found
    return ""


def _passes(visit: Visit, point: Point) -> str:
    """How often the body of a loop was entered."""
    step = visit.steps[point]
    depth = len(step.loops) - 1
    outer = point[2 : 2 + depth]
    entered = {
        other[2 + depth]
        for other, each in visit.steps.items()
        if each.loops[: depth + 1] == step.loops
        and other[2 : 2 + depth] == outer
        and (each is not step or step.one_line)
    }
    if step.kind == "comprehension":
        return ""
    ended = max(entered, default=-1) + 1 - step.one_line  # on one line, a pass ends in the head
    inside = visit.at is not None and visit.steps[visit.at].loops[: depth + 1] == step.loops
    if inside and not visit.left:
        return f"in pass {max(1, ended + step.one_line)}"
    return f"{ended} pass{'' if ended == 1 else 'es'}"


def _values(
    parting: Parting, there: Mapping[int, Visit], outcomes: Mapping[int, str]
) -> dict[int, tuple[tuple[str, str], ...]]:
    point = parting.point
    if parting.kind == "for":
        point = (*point[:-1], 0)  # what is walked over is evaluated as the loop begins
    held = {rank: dict(visit.values.get(point, {})) for rank, visit in there.items()}
    texts = list(dict.fromkeys(text for values in held.values() for text in values))
    differ = [t for t in texts if len({values.get(t) for values in held.values()}) > 1]
    wanted = differ or texts
    wanted = _without_returned(wanted, held)
    tests = _tests(next(iter(there.values())).steps[parting.point])
    wanted = [
        t for t in wanted if t not in tests or any(held[r].get(t) != outcomes[r] for r in held)
    ]
    wanted = wanted[:MOST_VALUES]
    return {
        rank: tuple((text, values[text]) for text in wanted if text in values)
        for rank, values in held.items()
    }


def _tests(step: Step) -> set[str]:
    """The conditions that a statement decides by, as they are written."""
    node = step.node
    tests = [node.test] if isinstance(node, ast.If | ast.While | ast.Assert) else []
    tests += [n.test for n in decisions(node) if isinstance(n, ast.IfExp)]
    return {ast.unparse(test) for test in tests}


def _without_returned(texts: list[str], held: Mapping[int, dict[str, str]]) -> list[str]:
    """What a function returned, told as ``name()``, unless the call itself is among them."""
    return [
        t
        for t in texts
        if not (t.endswith("()") and any(o != t and f"{t[:-1]}" in o for o in texts))
    ]


def _note(parting: Parting, there: Mapping[int, Visit], paths: Mapping[int, Path]) -> str:
    parts = []
    for rank, visit in there.items():
        raised = visit.raised.get(parting.point)
        if raised is None or parting.kind not in ("try", "assert"):
            continue
        if raised.place is not None:
            file, line, _ = raised.place
            step = visit.steps[parting.point]
            if (file, line) != (visit.file, step.line):
                parts.append(f"raised at {file.rpartition('/')[2]}:{line}")
        handler = _handler(paths[rank], parting)
        if handler:
            parts.append(f"caught at {handler}")
        break
    first = next(iter(there.values()))
    loops = first.steps[parting.point].loops
    passes = parting.point[2:]
    if parting.kind == "while" and passes[-1] > 0:
        parts.append(f"after {passes[-1]} pass{'es' if passes[-1] > 1 else ''} of the loop")
    if parting.kind in ("for", "while", "comprehension", "order"):
        loops, passes = loops[:-1], passes[:-1]
    if loops and passes[-1] > 0:
        parts.append(f"in pass {passes[-1] + 1} of the loop at line {loops[-1][0]}")
    return ", ".join(parts)


def _handler(way: Path, parting: Parting) -> str:
    """Where an exception was caught: an ``except`` that the rank came to right after it."""
    chain = next((c for c in way.failures if (parting.context, parting.point) in c), ())
    for context, point in reversed(chain):
        visit = way.visits[context]
        following = visit.after(point)
        if following is not None and visit.steps[following].kind == "except":
            return f"{visit.file.rpartition('/')[2]}:{visit.steps[following].line}"
    return ""
