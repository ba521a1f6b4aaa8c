"""Lines of a report, made of parts that say what they are: colour comes last, if at all."""

from __future__ import annotations

import linecache
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator

from harness.record import Frame
from harness.verdict._text import numbers, ranks_text

Part = tuple[str, str]
"""A role and a text. The roles are the keys of ``harness.plugin._display.MARKUP``, or empty."""

Line = tuple[Part, ...]

Style = Callable[[str, str], str]
"""Gives the text of a part as it is to be written, from its role and its text."""

Source = Callable[[str, int], str]
"""Gives the text of a line of a file, empty when it cannot be had."""


def unstyled(role: str, text: str) -> str:
    """Every part as it is."""
    return text


def read_source(file: str, line: int) -> str:
    """The line of the file as it is on disk now."""
    return linecache.getline(file, line).strip()


def line(*parts: str | Part) -> Line:
    """A line of parts; a text alone has no role. Empty parts and blanks at the end are left out."""
    made = [("", part) if isinstance(part, str) else part for part in parts]
    while made:
        role, text = made[-1]
        if text.rstrip():
            made[-1] = role, text.rstrip()
            break
        made.pop()
    return tuple(part for part in made if part[1])


def written(lines: Iterable[Line], style: Style) -> str:
    """The lines as one text."""
    return "\n".join("".join(style(role, text) for role, text in parts) for parts in lines)


def heading(text: str) -> Line:
    """The title of a section."""
    return line(("heading", text))


def path(frame: Frame) -> str:
    """``file:line``, relative to the working directory where that is shorter."""
    return f"{short(frame.file)}:{frame.line}"


def short(file: str) -> str:
    """A path, relative to the working directory where that is shorter."""
    if os.path.isabs(file):
        try:
            relative = os.path.relpath(file)
        except ValueError:  # another drive
            relative = file
        if len(relative) < len(file):
            return relative
    return file


def ranks_short(ranks: Iterable[int], width: int) -> str:
    """``ranks 0, 2``, or where that is too long ``16 ranks (0, 2, ...)``."""
    members = list(ranks)
    text = ranks_text(members)
    if len(text) <= width:
        return text
    first, second, *_ = [*numbers(members).split(", "), ""]
    for begun in (f"{first}, {second}", first):
        text = f"{len(members)} ranks ({begun}, ...)"
        if len(text) <= width:
            return text
    return f"{len(members)} ranks"


def cut(text: str, width: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= width else text[: max(width - 3, 1)] + "..."


def cut_middle(text: str, width: int) -> str:
    """The beginning and the end of a text."""
    if len(text) <= width:
        return text
    tail = max((width - 3) // 2, 1)
    return f"{text[: max(width - 3 - tail, 1)]}...{text[-tail:]}"


def wrapped(text: str, width: int, first: str, rest: str) -> Iterator[str]:
    """A text in lines that fit; words that do not stay whole."""
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(title: str, items: Iterable[str], width: int, role: str = "") -> Iterator[Line]:
    """A titled list after an empty line; nothing where there are no items."""
    for number, item in enumerate(items):
        if number == 0:
            yield ()
            yield heading(title)
        first, *rest = item.splitlines() or [""]
        for text in wrapped(first, width, "  - ", "    "):
            yield line((role, text))
        for text in rest:
            yield line((role, f"    {text}"))
