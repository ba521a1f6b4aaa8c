"""Where ranks stood: their call stacks, innermost first, with the lines of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.record import Frame, Stack
from harness.report._lines import Line, Source, cut, line, path, wrapped
from harness.verdict import Side
from harness.verdict._text import ranks_text

DEPTH = 4
DEEPEST = 12
PLACES = 3
MOST_PLACES = 8
MOST_VALUES = 3


def stacks(sides: Sequence[Side], width: int, verbosity: int, source: Source) -> Iterator[Line]:
    """The stacks of the ranks at fault and of one of the others; all of them where asked for."""
    found = _places(sides)
    shown = found[:MOST_PLACES]
    if verbosity < 1:
        guilty = [group for group in found if any(side.guilty for side in group)]
        others = [group for group in found if not any(side.guilty for side in group)]
        shown = [*guilty[:PLACES], *others[:1]]
    for group in shown:
        yield ()
        yield from _place(group, width, DEPTH if verbosity < 1 else DEEPEST, verbosity, source)
    more = len(found) - len(shown)
    if more:
        hint = "" if verbosity > 0 else " (-v shows more)"
        yield ()
        yield line(("dim", f"and {more} other place{'s' if more > 1 else ''}{hint}"))


def _places(sides: Sequence[Side]) -> list[list[Side]]:
    """Sides with a stack, those with the same one together; ranks at fault come first."""
    by_stack: dict[tuple[tuple[str, int], ...], list[Side]] = {}
    for side in sides:
        if side.stack:
            by_stack.setdefault(tuple((f.file, f.line) for f in side.stack), []).append(side)
    return sorted(by_stack.values(), key=lambda group: not any(s.guilty for s in group))


def _place(
    sides: Sequence[Side], width: int, depth: int, verbosity: int, source: Source
) -> Iterator[Line]:
    calls = {side.call for side in sides if side.call}
    call = f", {calls.pop()}" if len(calls) == 1 else ""
    for text in wrapped(f"{ranks_text(side.rank for side in sides)}{call}:", width, "", "    "):
        yield line(("heading", text))
    yield from _stack([side.stack for side in sides], width, depth, verbosity, source)


def _stack(
    alike: Sequence[Stack], width: int, depth: int, verbosity: int, source: Source
) -> Iterator[Line]:
    stack = alike[0]
    for place, frame in enumerate(stack[:depth]):
        loop = _loop([other[place] for other in alike])
        yield from _frame("  at   " if place == 0 else "  from ", frame, loop, width)
        text = frame.source.strip() or source(frame.file, frame.line).strip()
        if text:
            yield line(("source", f"           {cut(text, width - 11)}"))
    more = len(stack) - depth
    if more > 0:
        hint = "" if verbosity > 0 else f" (-v shows {min(DEEPEST - DEPTH, more)} of them)"
        hint = " (-v shows them)" if hint and more <= DEEPEST - DEPTH else hint
        yield line(("dim", f"       and {more} frame{'s' if more > 1 else ''} more{hint}"))


def _loop(frames: Sequence[Frame]) -> str:
    """The loop values of ranks that stand on one line: ``step=3, name=w1/w2``."""
    values: dict[str, dict[str, None]] = {}
    for frame in frames:
        for name, value in frame.loop:
            values.setdefault(name, {})[value] = None
    return ", ".join(
        f"{name}={'/'.join(list(seen)[:MOST_VALUES])}{'/...' if len(seen) > MOST_VALUES else ''}"
        for name, seen in values.items()
    )


def _frame(start: str, frame: Frame, loop: str, width: int) -> Iterator[Line]:
    at = path(frame)
    rest = f"in {frame.function}{f' ({loop})' if loop else ''}"
    if len(start) + len(at) + 1 + len(rest) <= width:
        yield line(start, ("place", at), f" {rest}")
    else:
        yield line(start, ("place", at))
        yield line(" " * len(start), cut(rest, width - len(start)))
