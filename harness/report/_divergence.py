"""The place at which ranks took different ways, as a table of outcomes and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.explain import Divergence, Explanation, Way
from harness.report._lines import Line, cut, cut_middle, line, ranks_short, short, wrapped

LONGEST_NAME = 24
LONGEST_EXPRESSION = 30
LONGEST_VALUE = 44
LONGEST_OUTCOME = 32
MOST_WAYS = 6
MOST_IN_SHORT = 3
MOST_PLACES = 3
INDENT = "    "

_SUMMARY = re.compile(r"\w+\[[\d, ]*\]|\w+ of \d+|empty \w+$|\w+ object$")
"""How the summary of a tensor or a collection begins: ``float32[150]``, ``dict of 3``."""


def explained(explanation: Explanation | None, width: int, verbosity: int) -> Iterator[Line]:
    """What the second run has shown, after an empty line; nothing where there was none."""
    if explanation is None:
        return
    if explanation.divergence is not None:
        yield ()
        yield from diverged(explanation.divergence, width, verbosity)
        return
    yield ()
    reason = explanation.reason or "a second run did not show where the ranks part"
    for text in wrapped(f"no line is named as the cause: {reason}", width, "", "  "):
        yield line(text)
    if not explanation.differed:
        return
    told = "ranks took different ways at these places; none of them is known to be the cause:"
    yield from (line(text) for text in wrapped(told, width, "", "  "))
    most = MOST_PLACES if verbosity < 1 else len(explanation.differed)
    for place in explanation.differed[:most]:
        yield from _in_short(place, width)
    more = len(explanation.differed) - most
    if more > 0:
        yield line(("dim", f"  and {more} more (-v shows all)"))


def diverged(place: Divergence, width: int, verbosity: int) -> Iterator[Line]:
    """The place, and a row for each way with its outcome and what decided it."""
    at = f"{short(place.file)}:{place.line}"
    head = ("heading", "diverged at ")
    if len(head[1]) + len(at) + 3 + len(place.source) <= width:
        yield line(head, ("place", at), "   ", ("source", place.source))
    else:
        yield line(head, ("place", at), f" in {place.function}" if place.function else "")
        yield line(("source", INDENT + cut(place.source, width - len(INDENT))))
    yield from _ways(place.ways, width, len(place.ways) if verbosity > 0 else MOST_WAYS)
    if place.note:
        yield from (line(text) for text in wrapped(place.note, width, INDENT, INDENT))


def _ways(ways: Sequence[Way], width: int, most: int) -> Iterator[Line]:
    shown = ways[:most]
    who = [ranks_short(way.ranks, LONGEST_NAME) for way in shown]
    outcomes = [cut_middle(way.outcome, LONGEST_OUTCOME) for way in shown]
    names = list(dict.fromkeys(name for way in shown for name, _ in way.values))
    values = [[_value(way, name, width) for name in names] for way in shown]
    widths = [max(len(row[k]) for row in values) for k in range(len(names))]
    left = max(map(len, who), default=0)
    middle = max(map(len, outcomes), default=0)
    start = len(INDENT) + left + 2 + middle + 3
    own_line = start + max(widths, default=0) > width  # values go below the ranks' names
    if own_line:
        start = len(INDENT) + 4
    for name, outcome, row in zip(who, outcomes, values, strict=True):
        head = f"{INDENT}{name:<{left}}  "
        cells = list(_rows(row, widths, width - start))
        if own_line:
            yield line(head, ("outcome", outcome))
        else:
            first = cells.pop(0) if cells else ""
            yield line(head, ("outcome", f"{outcome:<{middle}}"), "   ", first)
        yield from (line(" " * start, cell) for cell in cells)
    if len(ways) > most:
        yield line(("dim", f"{INDENT}and {len(ways) - most} other ways (-v shows all)"))


def _rows(values: Sequence[str], widths: Sequence[int], width: int) -> Iterator[str]:
    """The values of a way in columns, on as few lines as they need."""
    text = ""
    for value, size in zip(values, widths, strict=True):
        cell = f"{cut_middle(value, width):<{size}}"
        if text and len(text) + 4 + len(cell.rstrip()) > width:
            yield text.rstrip()
            text = cell
        else:
            text = f"{text}    {cell}" if text else cell
    if text.strip():
        yield text.rstrip()


def _value(way: Way, name: str, width: int) -> str:
    """``mask: float32[150]`` for what is only summarized, ``mask.numel() = 150`` for a value."""
    value = next((value for other, value in way.values if other == name), None)
    if value is None:
        return ""
    joint = ": " if _SUMMARY.match(value) else " = "
    head = f"{cut_middle(name, LONGEST_EXPRESSION)}{joint}"
    room = width - 2 * len(INDENT) - len(head)
    return f"{head}{cut_middle(value, min(room, LONGEST_VALUE))}"


def _in_short(place: Divergence, width: int) -> Iterator[Line]:
    ways = "; ".join(
        f"{ranks_short(w.ranks, LONGEST_NAME)}: {cut_middle(w.outcome, LONGEST_OUTCOME)}"
        for w in place.ways[:MOST_IN_SHORT]
    )
    at = f"{short(place.file)}:{place.line}"
    yield line("  ", ("place", at), "   ", ("source", cut(place.source, width - len(at) - 5)))
    yield from (line(text) for text in wrapped(ways, width, INDENT, INDENT))
