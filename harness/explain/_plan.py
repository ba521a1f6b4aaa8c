"""What the second run is to follow, worked out from what the first run found.

Only the functions on the way to the calls in question are followed: all others run at full speed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from harness.explain._source import (
    DEFINITIONS,
    Comprehension,
    Function,
    Step,
    function_at,
    functions_of,
)
from harness.explain._trace import ALL_EVENTS, EVENTS, Captures, TracePlan
from harness.record import Record
from harness.verdict import Finding

MOST_EXPRESSIONS = 8
MOST_FUNCTIONS = 400
PAGE = 8192
"""Events; the part of each rank has to begin at a page of memory, which has 64 KiB at most."""


Decision = ast.IfExp | ast.BoolOp | Comprehension


def plan(
    finding: Finding, records: Iterable[Record], path: str, world_size: int, run: int
) -> TracePlan:
    """What to follow to explain the finding."""
    sides = finding.sides
    raised = {(f.file, f.line) for side in sides if side.state == "raised" for f in side.stack}
    followed: dict[tuple[str, str], Captures] = {}
    for function in _functions(finding, records):
        if len(followed) < MOST_FUNCTIONS:
            followed.setdefault((function.file, function.name), _captures(function, raised))
    events = min(EVENTS, ALL_EVENTS // world_size) // PAGE * PAGE
    return TracePlan(path, max(PAGE, events), run, followed)


def _functions(finding: Finding, records: Iterable[Record]) -> Iterator[Function]:
    """Those on the way to what the finding is about, then to all other calls."""
    stacks = [side.stack for side in finding.sides]
    stacks += [getattr(record, "stack", ()) for record in records]
    frames = dict.fromkeys((f.file, f.function, f.line) for stack in stacks for f in stack)
    names = set()
    for frame in frames:
        function = function_at(*frame)
        if function is not None:
            names.add(function.name.rpartition(".")[2])
            yield function
    anywhere = finding.kind in ("rank_died", "straggler")  # nobody may know where it was
    for file in dict.fromkeys(file for file, _, _ in frames):
        for function in functions_of(file):
            name = function.name.rpartition(".")[2]
            # Of one name: the same method of another class may be the one that makes no call.
            if anywhere or (name in names and not name.startswith("<")):
                yield function


def _captures(function: Function, raised: set[tuple[str, int]]) -> Captures:
    """What to evaluate at each line: what decides, and all of a statement that raised."""
    captures: Captures = {}
    lines = [line for file, line in raised if file == function.file]
    for line, step in function.steps.items():
        wanted = list(decisive(step))
        if any(step.line <= n <= step.last for n in lines):
            wanted += [e for e in expressions(step.node) if e not in wanted]
        if wanted:
            # What a loop walks over is evaluated as it begins, not in each pass.
            skip = step.body if step.kind == "for" else (0, -1)
            captures[line] = tuple(wanted[:MOST_EXPRESSIONS]), skip
    return captures


def decisive(step: Step) -> Iterator[str]:
    """The expressions whose values decide which way a statement takes."""
    node = step.node
    if isinstance(node, (ast.If, ast.While, ast.Assert)):
        if step.one_line:  # no event tells whether the body was entered
            yield step.test
        yield from expressions(node.test)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from expressions(node.iter)
        yield from _once(_inner(node.iter))
    elif isinstance(node, ast.Match):
        yield from expressions(node.subject)
    elif isinstance(node, ast.match_case):
        if node.guard is not None:
            yield from expressions(node.guard)
    elif step.kind == "comprehension":
        assert isinstance(node, Comprehension)
        for generator in node.generators:
            for test in generator.ifs:
                yield from expressions(test)
    elif step.kind in ("simple", "expression", "raise"):
        yield from _once(_inner(node))


def _inner(node: ast.AST) -> Iterator[str]:
    """What decides within an expression: conditions, short circuits, what is walked over."""
    for part in _own(node):
        tests: list[ast.expr] = []
        if isinstance(part, ast.IfExp):
            tests = [part.test]
        elif isinstance(part, ast.BoolOp):
            tests = part.values[:-1]
        for test in tests:
            yield ast.unparse(test)
            yield from expressions(test)
        if isinstance(part, Comprehension):
            yield from expressions(part.generators[0].iter)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that run as part of it, in the order of the source."""
    yield node
    children: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, DEFINITIONS):
        children = node.decorator_list  # its body runs elsewhere
    for child in children:
        if not isinstance(child, (ast.Lambda, *DEFINITIONS)):
            yield from _own(child)


@functools.lru_cache(maxsize=4096)
def decisions(node: ast.AST) -> tuple[Decision, ...]:
    """The conditional expressions, short circuits and comprehensions within a simple statement."""
    return tuple(n for n in _own(node) if isinstance(n, (ast.IfExp, ast.BoolOp, Comprehension)))


def _once(texts: Iterable[str]) -> Iterator[str]:
    yield from dict.fromkeys(texts)


def expressions(node: ast.AST) -> list[str]:
    """The parts of an expression whose values tell why it came out as it did, in source order.

    ``mask.numel() > 0`` gives ``mask.numel()`` and ``mask``.
    """
    found: dict[str, None] = {}
    for part in _parts(node):
        found.setdefault(ast.unparse(part))
    return [text for text in found if len(text) <= 120]


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant | ast.Lambda | Comprehension):
        if isinstance(node, Comprehension):
            yield from _parts(node.generators[0].iter)
    elif isinstance(node, ast.Call):
        yield node
        if isinstance(node.func, ast.Attribute):
            yield from _parts(node.func.value)
        for argument in (*node.args, *(k.value for k in node.keywords)):
            yield from _parts(argument)
    elif isinstance(node, ast.Attribute | ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node
    elif isinstance(node, ast.Subscript):
        yield node
        yield from _parts(node.value)
        yield from _parts(node.slice)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _parts(child)
