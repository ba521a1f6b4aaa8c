"""Which arms of which ``if`` statements a line stands in, read from the source once per file."""

from __future__ import annotations

import ast
import functools
import linecache

Branches = tuple[tuple[int, int], ...]


def branches(file: str, line: int) -> Branches | None:
    """The ``if`` statements around a line in its function: (line of the ``if``, arm) each.

    Arm 0 is the body and 1 the ``else``; so is what follows an ``if`` whose body always leaves the
    block. None where there is no source to read.
    """
    table = _table(file)
    return None if table is None else table.get(line, ())


@functools.lru_cache(maxsize=512)
def _table(file: str) -> dict[int, Branches] | None:
    source = "".join(linecache.getlines(file))
    if not source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    table: dict[int, Branches] = {}
    _walk(tree, (), table)
    return table


def _walk(node: ast.AST, around: Branches, table: dict[int, Branches]) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        # What stands around a function does not decide which of its own lines run.
        around = ()
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            table.pop(line, None)
    if isinstance(node, (ast.If, ast.IfExp)):
        _enter(node.test, around, table)
        for arm, part in enumerate((node.body, node.orelse)):
            inside = (*around, (node.lineno, arm))
            _in_turn([*part] if isinstance(part, list) else [part], inside, table)
        return
    for _, value in ast.iter_fields(node):
        if isinstance(value, list):
            _in_turn(value, around, table)
        elif isinstance(value, ast.AST):
            _enter(value, around, table)


def _in_turn(nodes: list[ast.AST], around: Branches, table: dict[int, Branches]) -> None:
    """Statements one after another: what follows an ``if`` that leaves is its other arm."""
    for node in nodes:
        if not isinstance(node, ast.AST):
            continue
        _enter(node, around, table)
        if isinstance(node, ast.If):
            if _leaves(node.body):
                around = (*around, (node.lineno, 1))
            elif _leaves(node.orelse):
                around = (*around, (node.lineno, 0))


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block ends in ``return``, ``raise``, ``continue`` or ``break``."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _enter(node: ast.AST, around: Branches, table: dict[int, Branches]) -> None:
    if around and isinstance(node, (ast.stmt, ast.expr)):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            if len(table.get(line, ())) < len(around):
                table[line] = around
    _walk(node, around, table)
