"""Findings as text: the verdict, what each rank was doing and where, what to do, what followed."""

from __future__ import annotations

import linecache
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence

from harness.record import Frame, Stack
from harness.verdict import Finding, Side
from harness.verdict._text import ranks_text

Source = Callable[[str, int], str]
"""Gives the text of a line of a file, empty when it cannot be had."""

DEEPEST = 12
MOST_SITES = 8


def read_source(file: str, line: int) -> str:
    """The line of the file as it is on disk now."""
    return linecache.getline(file, line).strip()


def render(findings: Sequence[Finding], *, width: int = 100, source: Source = read_source) -> str:
    """The report on a run. Its first line is the verdict of the first finding.

    ``width`` is where prose is wrapped; ``source`` looks up lines that the records do not hold.
    """
    parts = []
    for number, finding in enumerate(findings, start=1):
        lines = list(_finding(finding, width, source))
        if number > 1:
            lines[0] = f"[{number}] {lines[0]}"
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _finding(finding: Finding, width: int, source: Source) -> Iterator[str]:
    label = "warning: " if finding.level == "warning" else ""
    yield f"{label}{finding.summary}"
    if finding.sides:
        yield ""
        yield from _states(finding.sides)
    for sides in _sites(finding.sides):
        yield ""
        yield from _site(sides, source)
    yield from _listed("what speaks for it:", finding.evidence, width)
    yield from _listed("what to do:", finding.hints, width)
    yield from _listed("what followed:", finding.secondary, width)


def _states(sides: Sequence[Side]) -> Iterator[str]:
    """One line for each rank; ranks that are alike share one."""
    rows: dict[tuple[str, str, str, str, bool], list[int]] = {}
    for side in sides:
        where = path(side.stack[0]) if side.stack else ""
        row = (side.state, side.call, where, side.note, side.guilty)
        rows.setdefault(row, []).append(side.rank)
    names = {row: ranks_text(ranks) for row, ranks in rows.items()}
    who = max(map(len, names.values()))
    states = max(len(row[0]) for row in rows)
    for row, name in names.items():
        state, call, where, note, guilty = row
        text = f"{call} at {where}" if call and where else call or where
        text = f"{text} ({note})" if text and note else text or note
        yield f"{'>' if guilty else ' '} {name:<{who}}  {state:<{states}}  {text}".rstrip()


def _sites(sides: Sequence[Side]) -> list[list[Side]]:
    """Sides with a stack, those with the same one together; ranks at fault come first."""
    by_stack: dict[tuple[tuple[str, int], ...], list[Side]] = {}
    for side in sides:
        if side.stack:
            by_stack.setdefault(tuple((f.file, f.line) for f in side.stack), []).append(side)
    found = sorted(by_stack.values(), key=lambda group: not any(s.guilty for s in group))
    return found[:MOST_SITES]


def _site(sides: Sequence[Side], source: Source) -> Iterator[str]:
    calls = {side.call for side in sides if side.call}
    call = f", {calls.pop()}" if len(calls) == 1 else ""
    yield f"{ranks_text(side.rank for side in sides)}{call}:"
    yield from _stack(sides[0].stack, source)


def _stack(stack: Stack, source: Source) -> Iterator[str]:
    for depth, frame in enumerate(stack[:DEEPEST]):
        start = "  at  " if depth == 0 else "  from"
        loop = ", ".join(f"{name}={value}" for name, value in frame.loop)
        yield f"{start} {path(frame)} in {frame.function}{f' ({loop})' if loop else ''}"
        text = frame.source.strip() or source(frame.file, frame.line).strip()
        if text:
            yield f"           {text}"
    if len(stack) > DEEPEST:
        yield f"       and {len(stack) - DEEPEST} frames more"


def path(frame: Frame) -> str:
    """``file:line``, relative to the working directory where that is shorter."""
    file = frame.file
    if os.path.isabs(file):
        try:
            relative = os.path.relpath(file)
        except ValueError:  # another drive
            relative = file
        if len(relative) < len(file):
            file = relative
    return f"{file}:{frame.line}"


def _listed(title: str, items: Sequence[str], width: int) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield title
    for item in items:
        first, *rest = item.splitlines() or [""]
        yield from textwrap.wrap(
            first,
            width,
            initial_indent="  - ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (f"    {line}".rstrip() for line in rest)
