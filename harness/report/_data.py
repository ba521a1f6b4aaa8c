"""Findings as plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.record import Stack
from harness.verdict import Finding


def _frames(stack: Stack) -> list[dict[str, Any]]:
    return [
        {"file": f.file, "line": f.line, "function": f.function, "loop": dict(f.loop)}
        for f in stack
    ]


def as_data(finding: Finding, *, stack: Callable[[Stack], Any] = _frames) -> dict[str, Any]:
    """A finding as dicts, lists, strings and numbers; ``stack`` says how stacks are given."""
    group = finding.group
    return {
        "kind": finding.kind,
        "level": finding.level,
        "detail": finding.detail,
        "summary": finding.summary,
        "group": None if group is None else {"name": group.name, "ranks": list(group.ranks)},
        "index": finding.index,
        "op": finding.op,
        "ranks": list(finding.ranks),
        "sides": [
            {
                "rank": side.rank,
                "state": side.state,
                "call": side.call,
                "note": side.note,
                "guilty": side.guilty,
                "number": side.number,
                "stack": stack(side.stack),
            }
            for side in finding.sides
        ],
        "evidence": list(finding.evidence),
        "hints": list(finding.hints),
        "secondary": list(finding.secondary),
    }
