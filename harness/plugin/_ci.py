"""What a world found, told to CI: annotations, a step summary, properties for JUnit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.report import Run
    from harness.verdict import Finding

_FOUND = "world_findings"
_PREFIX = "collectives."
_OTHER_PLUGIN = "pytest_github_actions_annotate_failures"
MOST_ROWS = 200

_SPECIAL = re.compile(r"[\\`*|~]|(?<!\w)_|_(?!\w)|\](?=[(:\[])")
"""What means something in a cell of a table: not the underscores within names, nor ``[0, 1]``."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of a test, as it travels with pytest's report: plain data only."""

    kind: str
    level: str
    ranks: list[int]
    file: str
    line: int
    summary: str
    parted: str = ""
    """Where the ranks parted and how, if that was found out."""

    def as_plain(self) -> dict[str, Any]:
        """For the report."""
        return {name: getattr(self, name) for name in self.__slots__}


def guilty_place(finding: Finding, run: Run | None) -> tuple[str, int]:
    """The line to look at: where the ranks parted, else that of a rank at fault, else the first.

    An empty name and 0 where no line is known.
    """
    first = run is not None and run.findings and run.findings[0] is finding
    if first and run is not None and run.explanation is not None:
        place = run.explanation.divergence
        if place is not None:
            return place.file, place.line
    sides = [side for side in finding.sides if side.stack]
    side = next((side for side in sides if side.guilty), sides[0] if sides else None)
    return (side.stack[0].file, side.stack[0].line) if side is not None else ("", 0)


def note(
    item: pytest.Item,
    report: pytest.TestReport,
    error: BaseException | None,
    suspected: Sequence[Finding],
) -> None:
    """Put on the report what a world found in this phase of the test: on what pytest-xdist sends
    to its controller, and among the properties that JUnit and others show."""
    if report.when == "setup":  # of a test that is run again
        item.user_properties[:] = [
            pair for pair in item.user_properties if not pair[0].startswith(_PREFIX)
        ]
    findings: Sequence[Finding] = getattr(error, "findings", ())
    run: Run | None = getattr(error, "run", None)
    if error is None or not report.failed or not findings:
        findings, run = suspected, None
    found = [_found(finding, run) for finding in findings]
    if not found:
        return
    setattr(report, _FOUND, [one.as_plain() for one in found])
    properties = [pair for one in found for pair in _properties(one, item.config)]
    item.user_properties += properties
    if report.user_properties is not item.user_properties:
        report.user_properties += properties


def _found(finding: Finding, run: Run | None) -> Found:
    file, line = guilty_place(finding, run)
    return Found(
        finding.kind,
        finding.level,
        list(finding.ranks),
        os.path.abspath(file) if file else "",
        line,
        finding.summary,
        _parted(finding, run),
    )


def _parted(finding: Finding, run: Run | None) -> str:
    place = run.explanation.divergence if run is not None and run.explanation is not None else None
    if place is None or run is None or run.findings[0] is not finding:
        return ""
    from harness.verdict._text import ranks_text

    ways = ", ".join(f"{ranks_text(way.ranks)}: {way.outcome}" for way in place.ways[:4])
    return f"diverged at {os.path.basename(place.file)}:{place.line}: {place.source} ({ways})"


def _properties(found: Found, config: pytest.Config) -> Iterator[tuple[str, object]]:
    yield f"{_PREFIX}kind", found.kind
    yield f"{_PREFIX}level", found.level
    yield f"{_PREFIX}ranks", ", ".join(map(str, found.ranks))
    if found.file:
        yield f"{_PREFIX}site", f"{_relative(found.file, config)}:{found.line}"


def _relative(file: str, config: pytest.Config, workspace: str = "") -> str:
    """A path as CI knows it: below the workspace, or below pytest's root directory."""
    for base in filter(None, (workspace, str(config.rootpath))):
        relative = os.path.relpath(file, base)
        if not relative.startswith(os.pardir):
            return relative.replace(os.sep, "/")
    return file


# -- at the end of the session --------------------------------------------------------------


def summary(
    terminal: pytest.TerminalReporter, environment: Mapping[str, str] | None = None
) -> None:
    """Tell GitHub, where it runs us, what was found in the tests of all workers."""
    env = os.environ if environment is None else environment
    config = terminal.config
    if hasattr(config, "workerinput"):
        return
    told = list(_told(terminal))
    if not told:
        return
    workspace = env.get("GITHUB_WORKSPACE", "")
    if env.get("GITHUB_ACTIONS") == "true":
        for text in workflow_commands(told, config, workspace):
            terminal.write_line(text)
    file = env.get("GITHUB_STEP_SUMMARY", "")
    if file:
        try:
            with open(file, "a", encoding="utf-8") as stream:
                stream.write(step_summary(told, config, workspace))
        except OSError as error:
            terminal.write_line(f"collectives: no step summary was written: {error}", yellow=True)


Told = tuple[Any, Found]
"""A report of pytest and a finding of it."""


def _told(terminal: pytest.TerminalReporter) -> Iterator[Told]:
    for reports in terminal.stats.values():
        for report in reports:
            if getattr(report, "outcome", "") == "rerun":
                continue
            for plain in getattr(report, _FOUND, None) or ():
                yield report, Found(**plain)


def workflow_commands(told: Iterable[Told], config: pytest.Config, workspace: str) -> Iterator[str]:
    """One command of a GitHub workflow for each line and kind, whatever the number of tests.

    The plugin that annotates failures, if it is there, has done so at the line of the test: what
    is to be said of that line it has said.
    """
    theirs = config.pluginmanager.hasplugin(_OTHER_PLUGIN)
    by_line: dict[tuple[str, int, str, str], list[Told]] = {}
    for report, found in told:
        if (
            theirs
            and report.failed
            and report.when == "call"
            and _line_of(report)
            == (
                found.file,
                found.line,
            )
        ):
            continue
        key = found.file, found.line, found.kind, found.level
        by_line.setdefault(key, []).append((report, found))
    for (file, line, kind, level), tests in by_line.items():
        command = "warning" if level == "warning" else "error"
        where = []
        if file:
            where = [f"file={_property(_relative(file, config, workspace))}", f"line={line}"]
        report, found = tests[0]
        names = list(dict.fromkeys(r.nodeid for r, _ in tests))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        said = "\n".join(filter(None, (found.summary, found.parted, f"in {report.nodeid}{more}")))
        yield f"::{command} {','.join([*where, f'title={_property(kind)}'])}::{_message(said)}"


def _line_of(report: pytest.TestReport) -> tuple[str, int]:
    """The line that the other plugin annotates: of the first entry of the traceback."""
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", None)
    place = getattr(entries[0], "reprfileloc", None) if entries else None
    if place is None:
        file, line, _ = report.location
        return os.path.abspath(file), (line or 0) + 1
    return os.path.abspath(place.path), place.lineno


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def step_summary(told: Iterable[Told], config: pytest.Config, workspace: str) -> str:
    """A Markdown table with a row for each finding."""
    rows = []
    for report, found in told:
        place = f"{_relative(found.file, config, workspace)}:{found.line}" if found.file else ""
        kind = found.kind if found.level == "error" else f"{found.kind} (warning)"
        said = "<br>".join(_markdown(text) for text in (found.summary, found.parted) if text)
        ranks = ", ".join(map(str, found.ranks))
        cells = (_code(report.nodeid), _markdown(kind), ranks, _code(place), said)
        rows.append(f"| {' | '.join(cells)} |")
    more = [f"\nand {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []
    head = ["### Misuse of collectives", "", "| test | kind | ranks | line | verdict |"]
    return "\n".join([*head, "|---|---|---|---|---|", *rows[:MOST_ROWS], *more, "", ""])


def _code(text: str) -> str:
    return f"<code>{_markdown(text)}</code>" if text else ""


def _markdown(text: str) -> str:
    """A text in which Markdown and HTML find nothing of their own; still to be read as it is."""
    text = " ".join(text.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(_SPECIAL, lambda m: f"&#{ord(m[0])};", text)
