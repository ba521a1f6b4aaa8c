"""The statements of the user's functions, read from the source: what a traced line is part of.

Pure: source text in, statements out. Execution is followed by lines; what decides about the way is a
statement, with the loops around it.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

LoopId = tuple[int, int]
"""Line and column of a loop in its file."""

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Loop = ast.For | ast.AsyncFor | ast.While
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

COMPREHENSIONS = {
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}


@dataclass(frozen=True, eq=False)
class Step:
    """A statement, or the head of a compound one: what one visit of its lines stands for.

    ``loops`` are those around it in its function, outermost first; the head of a loop is inside it.
    ``body`` and ``orelse`` are the first and last line of the parts of a compound statement.
    """

    node: ast.AST
    kind: str
    line: int
    last: int
    loops: tuple[LoopId, ...] = ()
    body: tuple[int, int] = (0, -1)
    orelse: tuple[int, int] = (0, -1)

    @functools.cached_property
    def loop(self) -> LoopId | None:
        """The loop that this is the head of."""
        return self.loops[-1] if self.kind in ("for", "while", "comprehension") else None

    @functools.cached_property
    def place(self) -> tuple[int, int]:
        """Line and column."""
        return self.line, getattr(self.node, "col_offset", 0)

    @functools.cached_property
    def test(self) -> str:
        """The condition of an ``if`` or a ``while``, as text."""
        node = self.node
        return ast.unparse(node.test) if isinstance(node, ast.If | ast.While) else ""

    @functools.cached_property
    def one_line(self) -> bool:
        """Whether it is compound, and what it decides about begins on its own line."""
        return self.body[0] != 0 and self.body[0] <= self.last


@dataclass
class Function:
    """One function, lambda, comprehension or module: its statements by line."""

    file: str
    name: str
    first: int
    last: int
    node: ast.AST | None
    steps: dict[int, Step] = field(default_factory=dict)


def function_at(file: str, name: str, line: int) -> Function | None:
    """The function of that qualified name around a line; None where there is no source to read."""
    around = [f for f in _functions(file).get(name, ()) if f.first <= line <= f.last]
    return min(around, key=lambda f: f.last - f.first, default=None)


def functions_of(file: str) -> Iterator[Function]:
    """All functions of a file."""
    for same in _functions(file).values():
        yield from same


def is_of(function: Function, first: int, lines: Iterable[int]) -> bool:
    """Whether code with that first line and those lines can have been made from this source."""
    asserts = {n for n, step in function.steps.items() if step.kind == "assert"}
    same = _lines_of_code(function.file).get((function.name, first), [])
    # pytest writes assertions anew.
    return any(set(lines) - asserts == each - asserts for each in same)


@functools.lru_cache(maxsize=256)
def _lines_of_code(file: str) -> dict[tuple[str, int], list[set[int]]]:
    """The lines of each function of a file, by its name and first line, if it is compiled now."""
    found: dict[tuple[str, int], list[set[int]]] = {}
    waiting: list[Any] = [compile("".join(linecache.getlines(file)), file, "exec", 0, True)]
    while waiting:
        code = waiting.pop()
        lines = {line for _, _, line in code.co_lines() if line is not None}
        found.setdefault((code.co_qualname, code.co_firstlineno), []).append(lines)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


def read_anew() -> None:
    """Forget what was read: a file may have been written again since."""
    linecache.checkcache()
    _functions.cache_clear()
    _lines_of_code.cache_clear()


@functools.lru_cache(maxsize=256)
def _functions(file: str) -> dict[str, list[Function]]:
    source = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, list[Function]] = {}
    for made in _walk(tree, "", file):
        found.setdefault(made.name, []).append(made)
    return found


def _walk(node: ast.AST, prefix: str, file: str) -> Iterator[Function]:
    """Every function below ``node``, named as Python names its code."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}{child.name}.", file)
        elif isinstance(child, _Function):
            plain = "<lambda>" if isinstance(child, ast.Lambda) else child.name
            name = f"{prefix}{plain}"
            yield _function(child, file, name)
            yield from _walk(child, f"{name}.<locals>.", file)
        elif isinstance(child, Comprehension):
            plain = next(n for n, kind in COMPREHENSIONS.items() if isinstance(child, kind))
            name = f"{prefix}{plain}"
            yield _comprehension(child, file, name)
            # Since 3.12 most of them are part of the function around them.
            yield from _walk(child, f"{name}.<locals>.", file)
            if plain != "<genexpr>":
                yield from _walk(child, prefix, file)
        else:
            yield from _walk(child, prefix, file)


def _function(node: _Function, file: str, name: str) -> Function:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    first = min([node.lineno, *(d.lineno for d in decorators)])
    made = Function(file, name, first, node.end_lineno or node.lineno, node)
    if isinstance(node, ast.Lambda):
        _fill(made, Step(node, "expression", node.lineno, made.last))
    else:
        _add(made, node.body, ())
    return made


def _comprehension(node: Comprehension, file: str, name: str) -> Function:
    last = node.end_lineno or node.lineno
    made = Function(file, name, node.lineno, last, node)
    loop = (node.lineno, node.col_offset)
    _fill(made, Step(node, "comprehension", node.lineno, last, (loop,)))
    return made


def _fill(function: Function, step: Step) -> None:
    before = function.steps.get(step.line)
    if before is not None and before.kind == step.kind == "simple" and before.last == step.line:
        # ``a; b``: as events tell of lines only, they are one.
        nodes: list[Any] = [*getattr(before.node, "body", [before.node]), step.node]
        both = ast.Module(nodes, [])
        last = max(before.last, step.last)
        step = Step(both, "simple", before.line, last, step.loops)
        function.steps.update(dict.fromkeys(range(before.line, before.last + 1), step))
    for line in range(step.line, step.last + 1):
        # Of others that share a line, the outer one stands for both.
        function.steps.setdefault(line, step)


def _add(function: Function, body: Iterable[ast.stmt], loops: tuple[LoopId, ...]) -> None:
    for node in body:
        _add_one(function, node, loops)


def _add_one(function: Function, node: ast.stmt, loops: tuple[LoopId, ...]) -> None:
    inner = loops
    if isinstance(node, _Loop):
        inner = (*loops, (node.lineno, node.col_offset))
    own = inner if isinstance(node, _Loop) else loops
    body: list[ast.stmt] = getattr(node, "body", [])
    orelse: list[ast.stmt] = getattr(node, "orelse", [])
    if isinstance(node, DEFINITIONS):
        # Made here; its own statements run elsewhere.
        _fill(function, Step(node, "simple", node.lineno, _head_end(node), own))
        return
    step = Step(
        node, _kind(node), node.lineno, _head_end(node), own, _extent(body), _extent(orelse)
    )
    _fill(function, step)
    _add(function, body, inner)
    for handler in getattr(node, "handlers", ()):
        last = handler.lineno if handler.type is None else handler.type.end_lineno
        _fill(function, Step(handler, "except", handler.lineno, last or handler.lineno, loops))
        _add(function, handler.body, loops)
    for case in getattr(node, "cases", ()):
        last = (case.guard or case.pattern).end_lineno
        _fill(
            function,
            Step(case, "case", case.pattern.lineno, last, loops, _extent(case.body)),
        )
        _add(function, case.body, loops)
    _add(function, orelse, loops)
    _add(function, getattr(node, "finalbody", []), loops)


def _kind(node: ast.stmt) -> str:
    names: dict[type[ast.stmt], str] = {
        ast.If: "if",
        ast.For: "for",
        ast.AsyncFor: "for",
        ast.While: "while",
        ast.Match: "match",
        ast.Assert: "assert",
        ast.Try: "try",
        ast.TryStar: "try",
        ast.With: "with",
        ast.AsyncWith: "with",
        ast.Raise: "raise",
    }
    return names.get(type(node), "simple")


def _head_end(node: ast.stmt) -> int:
    """The last line of a statement, or of the head of a compound one."""
    parts: list[ast.AST | None]
    if isinstance(node, (ast.If, ast.While)):
        parts = [node.test]
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        parts = [node.iter]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        parts = [item.optional_vars or item.context_expr for item in node.items]
    elif isinstance(node, ast.Match):
        parts = [node.subject]
    elif isinstance(node, (ast.Try, ast.TryStar, *DEFINITIONS)):
        parts = []
    else:
        parts = [node]
    return max([node.lineno, *(getattr(p, "end_lineno", 0) or 0 for p in parts)])


def _extent(body: list[ast.stmt]) -> tuple[int, int]:
    if not body:
        return 0, -1
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno


def source_line(file: str, line: int) -> str:
    """A line of a file as it is on disk, without indentation."""
    return linecache.getline(file, line).strip()
