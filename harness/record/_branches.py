"""Which arms of which ``if`` statements a line stands in, read from the source once per file."""

from __future__ import annotations

import ast
import functools
import linecache

Branches = tuple[tuple[int, int], ...]


def branches(file: str, line: int) -> Branches | None:
    """The ``if`` statements around a line in its function: (line of the ``if``, arm) each.

    Arm 0 is the body and 1 the ``else``. None where there is no source to read.
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
            statements: list[ast.AST] = [*part] if isinstance(part, list) else [part]
            for child in statements:
                _enter(child, inside, table)
        return
    for below in ast.iter_child_nodes(node):
        _enter(below, around, table)


def _enter(node: ast.AST, around: Branches, table: dict[int, Branches]) -> None:
    if around and isinstance(node, (ast.stmt, ast.expr)):
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            if len(table.get(line, ())) < len(around):
                table[line] = around
    _walk(node, around, table)
