"""How pytest's failure section shows the reports of worlds: how long, and in which colours.

pytest writes all lines of an error in bold red. What a report is made of travels with pytest's own
report as plain data, so also from the workers of pytest-xdist; the text itself has no escapes. Only
when all other reporters have had it, and only where the terminal shows colours, the lines are
painted. Whatever differs in another pytest's internals leaves them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from harness import _settings

if TYPE_CHECKING:
    from harness.report import Line

MARKUP: dict[str, dict[str, bool]] = {
    "verdict": {"red": True, "bold": True},
    "warning": {"yellow": True, "bold": True},
    "heading": {"bold": True},
    "place": {"cyan": True},
    "outcome": {"bold": True},
    "guilty": {"red": True},
    "gap": {"red": True, "bold": True},
    "hint": {"green": True},
    "dim": {"light": True},
}
"""How each role of a part of a report is written; the others are plain."""

_LINES = "world_report_lines"
_NAME = "harness.WorldError: "
_RESET = "\x1b[0m"


def shorten(error: BaseException | None) -> None:
    """With ``-q`` leave the verdict alone, now that the test has had the whole text."""
    from harness._errors import WorldError

    if _settings.current.detail < 0 and isinstance(error, WorldError):
        error.args = tuple(str(error).splitlines()[:1])


def note(report: pytest.TestReport, error: BaseException | None) -> None:
    """Send along with the report of a failed test what the lines of its error are made of."""
    from harness._errors import WorldError

    if not isinstance(error, WorldError) or error.run is None or not report.failed:
        return
    from harness.report import WIDTH_IN_PYTEST, lines

    found = lines(error.run, width=WIDTH_IN_PYTEST, verbosity=_settings.current.detail)
    setattr(report, _LINES, [[list(part) for part in parts] for parts in found])


def paint(config: pytest.Config) -> None:
    """Colour the noted reports for the terminal that shows them, if it has colours."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or not getattr(terminal, "hasmarkup", False):
        return
    markup = config.get_terminal_writer().markup
    for reports in terminal.stats.values():
        for report in reports:
            found = getattr(report, _LINES, None)
            if not found:
                continue
            setattr(report, _LINES, None)
            traceback = getattr(report.longrepr, "reprtraceback", None)
            entries = getattr(traceback, "reprentries", None)
            shown = getattr(entries[-1], "lines", None) if entries else None
            if isinstance(shown, list):
                shown[:] = painted(shown, found, markup)


def painted(shown: Sequence[str], found: Sequence[Line], markup: Callable[..., str]) -> list[str]:
    """The lines that pytest shows, with those of the report in its colours.

    They come after pytest's marker of an error, the first after the name of the exception. A line
    that is not as expected stays as it is.
    """
    first = next((n for n, text in enumerate(shown) if re.match(r"E +\S", text)), None)
    if first is None:
        return list(shown)
    margin = shown[first][: len(shown[first]) - len(shown[first][1:].lstrip())]
    made = list(shown)
    for n, parts in enumerate(found, start=first):
        plain = "".join(text for _, text in parts)
        name = _NAME if n == first else ""
        if n >= len(shown) or not plain:
            continue
        start = shown[n][: len(margin)]
        # With --tb=line only the first line has the marker.
        if start.strip() not in ("E", "") or shown[n] != f"{start}{name}{plain}":
            break
        text = "".join(markup(text, **MARKUP.get(role, {})) for role, text in parts)
        made[n] = f"{start}{name}{_RESET}{text}"
    return made
