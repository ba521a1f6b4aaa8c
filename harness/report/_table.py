"""What each rank was doing, as a table; ranks that are alike share a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report._lines import (
    Line,
    Part,
    cut_middle,
    heading,
    line,
    path,
    ranks_short,
    wrapped,
)
from harness.verdict import Side

LONGEST_NAME = 22
LONGEST_NOTE = 40
STATES = {"waiting": "waits", "past": "went on", "running": "in user code"}


@dataclass(frozen=True, slots=True)
class _Row:
    state: str
    call: str
    at: str
    note: str
    guilty: bool


def table(sides: Sequence[Side], width: int) -> Iterator[Line]:
    """A row for each rank: who is at fault, its state, its call, the site, what more to say."""
    rows: dict[_Row, list[int]] = {}
    for side in sides:
        rows.setdefault(_row(side), []).append(side.rank)
    if not rows:
        return
    names = {row: ranks_short(ranks, LONGEST_NAME) for row, ranks in rows.items()}
    who = max(map(len, names.values()))
    state = max(len(row.state) for row in rows)
    start = 2 + who + 2 + state + 2
    call = max(len(row.call) for row in rows)
    at = max(len(row.at) for row in rows)
    beside = call + (2 if call and at else 0) + at <= width - start
    call = min(call, width - start)
    yield ()
    some = any(row.guilty for row in rows)
    yield heading("what each rank did (> at fault):" if some else "what each rank did:")
    for row, name in names.items():
        role = "guilty" if row.guilty else ""
        text = (
            f"{'>' if row.guilty else ' '} {name:<{who}}  {row.state:<{state}}  "
            f"{cut_middle(row.call, call):<{call}}"
        )
        parts: list[str | Part] = [(role, text)]
        used = start + call
        if row.at and beside:
            parts += ["  " if call else "", (role or "place", row.at)]
            used += 2 + len(row.at)
        below = row.note
        if row.note and used + 4 + len(row.note) <= width and beside:
            parts.append(("dim", f"  ({row.note})"))
            below = ""
        yield line(*parts)
        if row.at and not beside:
            yield line(" " * max(4, min(start, width - len(row.at))), (role or "place", row.at))
        for more in wrapped(below, width, " " * start, " " * start):
            yield line(("dim", more))


def _row(side: Side) -> _Row:
    note = side.note
    for word in ("died", "raised", "skipped"):
        # The state says it already.
        if side.state == word and note.startswith(f"{word} "):
            note = note.removeprefix(f"{word} ")
    if note.startswith("(") and note.endswith(")"):
        note = note[1:-1]
    at = path(side.stack[0]) if side.stack else ""
    state = STATES.get(side.state, side.state)
    if side.state == "running" and note == "in user code":
        note = ""
    call = side.call
    if not call and len(note) <= LONGEST_NOTE:
        call, note = note, ""
    elif not call and state == "raised":
        call, _, note = note.partition(": ")
    return _Row(state, call, at, note, side.guilty)
