"""The kinds and details that the verdict can give, read from its source.

Where a kind is not written out in the call that makes a finding, it is a parameter, a variable or a
table named ``kind`` or ``KINDS``; anything else is refused, so that no kind can be overlooked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import harness.verdict

FOLDER = Path(harness.verdict.__file__).parent


@dataclass
class Vocabulary:
    """All kinds and details, and the calls whose kind could not be read."""

    kinds: set[str] = field(default_factory=set)
    details: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)


def vocabulary() -> Vocabulary:
    """What the modules of ``harness/verdict`` hold."""
    found = Vocabulary()
    for file in sorted(FOLDER.glob("*.py")):
        read_source(file, ast.parse(file.read_text()), found)
    return found


def read_source(file: Path, tree: ast.Module, found: Vocabulary) -> None:
    """Add what one module holds."""
    places = {
        node.name: [argument.arg for argument in node.args.args].index("kind")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "kind" in [a.arg for a in node.args.args]
    }
    places["Finding"] = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            _read_call(file, node, places, found)
        elif isinstance(node, ast.Assign):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if "kind" in names:
                found.kinds.update(_texts(node.value))
            if "detail" in names:
                found.details.update(_texts(node.value))
            if "KINDS" in names and isinstance(node.value, ast.Dict):
                found.kinds.update(text for value in node.value.values for text in _texts(value))


def _read_call(file: Path, call: ast.Call, places: dict[str, int], found: Vocabulary) -> None:
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if "detail" in given:
        found.details.update(_texts(given["detail"]))
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name in places:
        place = places[name]
        kind = given.get("kind") or (call.args[place] if place < len(call.args) else None)
    elif name == "replace":
        kind = given.get("kind")
        if kind is None:
            return
    else:
        return
    texts = set(_texts(kind)) if kind is not None else set()
    found.kinds |= texts
    from_table = isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "KINDS"
    from_name = isinstance(kind, ast.Name) and kind.id == "kind"
    if not texts and not from_table and not from_name:
        found.unread.append(f"{file.name}:{call.lineno}: {ast.unparse(call)[:80]}")


def _texts(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can be, where they are written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
