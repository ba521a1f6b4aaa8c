"""The last calls around a finding, those that the program means as one beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.record import P2P_OPS, Call
from harness.report._calls import Column, Entry, columns, rows
from harness.report._lines import Line, Part, cut_middle, heading, line, ranks_short
from harness.report._run import Run
from harness.verdict import Finding, Side
from harness.verdict._text import loops_text, site

ROWS = 6
MORE_ROWS = 20
COLUMNS = 3
AFTER = 2
"""Rows after the call in question: they show that the ranks are in step again."""

LONGEST_OP = 22
LONGEST_GROUP = 14
NARROWEST = 8
GAP = "-"
VIA = " via "

Row = Sequence[Entry | None]


def sequence(run: Run, finding: Finding, width: int, verbosity: int) -> Iterator[Line]:
    """The calls around the finding, side by side; nothing where they add nothing to it."""
    most = ROWS if verbosity < 1 else MORE_ROWS
    found = [c for c in columns(run, finding, most + 8, COLUMNS) if c.entries or c.guilty]
    made = rows(found, finding)
    if not made or (len(made) == 1 and _alike(made[0])):
        return
    sides = {side.rank: side for side in finding.sides}
    first, last = _extent(made, most)
    before = first + found[0].before
    yield ()
    yield from _Grid(finding.kind, found, made, first, last, sides).lines(width, before)


def _alike(row: Row) -> bool:
    return None not in row and len({e.group for e in row if e is not None}) == 1


def _extent(made: Sequence[Row], most: int) -> tuple[int, int]:
    """The first and the last row to show."""
    wanted = [n for n, row in enumerate(made) if any(e is not None and e.wanted for e in row)]
    end = len(made) - 1
    last = min(wanted[-1] + AFTER, end) if wanted else end
    if wanted and wanted[-1] - wanted[0] + AFTER >= most:
        last = min(wanted[0] + most - 2, end)
    first = max(0, last - most + 1)
    return first, min(end, first + most - 1)


@dataclass
class _Grid:
    """The rows from ``first`` to ``last`` as they are written."""

    kind: str
    columns: Sequence[Column]
    made: Sequence[Row]
    first: int
    last: int
    sides: dict[int, Side]

    def lines(self, width: int, before: int) -> Iterator[Line]:
        shown = self.made[self.first : self.last + 1]
        marks = [any(e is not None and e.wanted for e in row) for row in shown]
        numbers = [_number(row) for row in shown]
        ops = [_op(row) for row in shown]
        names = _sites(shown)
        start = 4 + max(map(len, numbers)) + 2 + max(map(len, ops)) + 2
        count = len(self.columns)
        each = max((width - start - 2 * (count - 1)) // count, NARROWEST)
        titles = [ranks_short(c.ranks, each) for c in self.columns]
        cells = [
            [self._fitted(self.first + n, k, names, mark, each) for k in range(count)]
            for n, mark in enumerate(marks)
        ]
        sizes = [max(len(titles[k]), *(len(row[k][1]) for row in cells)) for k in range(count)]
        yield heading(_title(sum(marks)))
        parts: list[str | Part] = [" " * start]
        for column, title, size in zip(self.columns, titles, sizes, strict=True):
            parts.append(("guilty" if column.guilty else "heading", f"{title:<{size}}  "))
        yield line(*parts)
        if before:
            yield line(("dim", f"    ... {before} earlier call{'s' if before > 1 else ''}"))
        for number, op, row, mark in zip(numbers, ops, cells, marks, strict=True):
            head = f"{number:<{max(map(len, numbers))}}  {op:<{max(map(len, ops))}}  "
            parts = [("guilty" if mark else "", f"  {'>' if mark else ' '} "), head]
            for (role, text), size in zip(row, sizes, strict=True):
                parts.append((role, f"{text:<{size}}  "))
            yield line(*parts)
        after = len(self.made) - 1 - self.last
        if after:
            yield line(("dim", f"    ... {after} later call{'s' if after > 1 else ''}"))

    def _fitted(self, n: int, k: int, names: dict[Entry, str], mark: bool, size: int) -> Part:
        role, text = self._cell(n, k, names, mark)
        return role, _fitted(text, size)

    def _cell(self, n: int, k: int, names: dict[Entry, str], mark: bool) -> Part:
        row = self.made[n]
        entry = row[k]
        if entry is None:
            return "gap", f"{GAP} {self._why(n, k, mark)}".rstrip()
        text = names[entry]
        made = entry.made
        if len({e.group for e in row if e is not None}) > 1:
            return "", f"{entry.group} {text}"
        if len({e.op for e in row if e is not None}) > 1:
            text = f"{entry.op} {text}"
        elif isinstance(made, Call) and made.label and not _op(row).endswith(made.label):
            text = f'"{made.label}" {text}'
        elif entry.op in P2P_OPS and isinstance(made, Call) and len(self.columns[k].ranks) == 1:
            peer = "any" if made.peer is None else made.peer
            text = f"{text} {'to' if entry.op == 'send' else 'from'} {peer}"
        return "guilty" if mark and self.columns[k].guilty else "", text

    def _why(self, n: int, k: int, mark: bool) -> str:
        """Why a rank has no call there, in a word."""
        side = self.sides.get(self.columns[k].ranks[0])
        if side is None:
            return ""
        later = any(row[k] is not None for row in self.made[n + 1 :])
        begins = n == 0 or self.made[n - 1][k] is not None
        if side.guilty and side.state in ("raised", "died") and not later:
            return side.state if mark or begins else ""
        if not mark:
            return ""
        if side.guilty and self.kind in ("missing_participant", "group_creation"):
            return "skipped" if later or side.state in ("past", "waiting") else "never made"
        return "not there yet" if side.state == "running" else ""


def _fitted(text: str, size: int) -> str:
    """A cell that does not fit loses of its operation first, and keeps the site."""
    if len(text) > size and VIA in text:
        text = text.partition(VIA)[0]
    op, space, place = text.partition(" ")
    if len(text) > size and op.startswith('"'):
        return cut_middle(op, size)
    if len(text) > size and space and ":" not in op and len(place) + 5 <= size:
        return f"{op[: size - len(place) - 4]}... {place}"
    return cut_middle(text, size)


def _title(marked: int) -> str:
    """What the mark means, where there is one."""
    what = {0: "", 1: " (> the one in question)"}.get(marked, " (> those in question)")
    return f"the last calls, side by side{what}:"


def _number(row: Row) -> str:
    """``dp-cp 2``: the group, and which of its calls it is."""
    calls = [e for e in row if e is not None]
    made = next((e for e in calls if e.wanted), calls[0]).made
    groups = {e.group for e in calls}
    group = cut_middle(groups.pop(), LONGEST_GROUP) if len(groups) == 1 else ""
    if not isinstance(made, Call):
        return f"group {made.index + 1}"
    if made.op in P2P_OPS:
        return group or "message"
    return f"{group or 'call'} {made.index + 1}"


def _op(row: Row) -> str:
    """The operation and its label; empty where the columns differ, which then say it themselves."""
    calls = [e for e in row if e is not None]
    if len({e.op for e in calls}) > 1:
        return ""
    names = {e.made.label if isinstance(e.made, Call) else None for e in calls}
    label = names.pop() if len(names) == 1 else None
    return cut_middle(f"{calls[0].op} {label}" if label else calls[0].op, LONGEST_OP)


def _sites(shown: Sequence[Row]) -> dict[Entry, str]:
    """Each call's site; with the caller that tells it apart, where a helper hides it."""
    by_site: dict[str, list[Entry]] = {}
    for row in shown:
        for entry in row:
            if entry is not None:
                by_site.setdefault(site(entry.made.stack), []).append(entry)
    names: dict[Entry, str] = {}
    for text, alike in by_site.items():
        depth = _parting({entry.lines for entry in alike})
        for entry in alike:
            frames = entry.made.stack
            loops = loops_text(frames)
            shown_loops = f" ({loops})" if loops else ""
            if 0 < depth < len(frames):
                names[entry] = f"{site(frames[depth:])}{shown_loops}{VIA}{text}"
            else:
                names[entry] = f"{text}{shown_loops}"
    return names


def _parting(places: set[tuple[tuple[str, int], ...]]) -> int:
    """The innermost frame in which stacks differ; 0 where they do not."""
    deepest = min(map(len, places))
    return next((d for d in range(deepest) if len({place[d] for place in places}) > 1), 0)
