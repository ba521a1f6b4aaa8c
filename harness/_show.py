"""``python -m harness show``: saved reports, printed, converted or opened."""

from __future__ import annotations

import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path

from harness.report import render
from harness.report._chrome import trace
from harness.report._json import Report, dumps, loads, report_from_json
from harness.report._page import GENERATOR, page, report_of_page


class CannotShow(Exception):
    """What was asked for cannot be done: the text names the file and what is wrong with it."""


def show(file: str, html: str | None, trace_file: str | None, *, browse: bool) -> int:
    """Do what the command line asks for; without a conversion the report is printed."""
    source = Path(file)
    text = _read(source)
    is_page = GENERATOR in text[:600]
    try:
        report = report_of_page(text) if is_page else report_from_json(loads(text))
    except ValueError as error:
        raise CannotShow(
            f"{file} is no saved report: {error}; give a .json or .html file of --world-report"
        ) from None
    if html is not None:
        _write(html, page(report))
    if trace_file is not None:
        _write(trace_file, dumps(trace(report.runs[-1])))
    if browse:
        _open(source, report, html, is_page=is_page)
    elif html is None and trace_file is None:
        print(_text(report))
    return 0


def _text(report: Report) -> str:
    """All runs of the test, those that say something, and what failed besides."""
    parts = [f"{report.test or 'a run outside pytest'}\n"]
    many = len(report.runs) > 1
    for number, run in enumerate(report.runs, start=report.runs_before + 1):
        text = render(run, width=_width())
        if text and many:
            parts.append(f"run {number}, {run.function}:\n")
        if text:
            parts.append(text + "\n")
    if report.failure:
        parts.append(report.failure)
    if len(parts) == 1:
        parts.append("no findings")
    return "\n".join(parts).rstrip("\n")


def _width() -> int:
    return max(60, min(120, shutil.get_terminal_size().columns)) if sys.stdout.isatty() else 100


def _open(source: Path, report: Report, html: str | None, *, is_page: bool) -> None:
    """Open the page: the one just written, the file itself, its neighbour, or a new one."""
    neighbour = source.with_suffix(".html")
    if html is not None:
        target = Path(html)
    elif is_page:
        target = source
    elif neighbour.is_file() and GENERATOR in _read(neighbour)[:600]:
        target = neighbour
    else:
        target = Path(tempfile.mkdtemp(prefix="world-report-")) / neighbour.name
        _write(str(target), page(report))
    if not webbrowser.open(target.resolve().as_uri()):
        raise CannotShow(f"no browser was found to open {target}; open it by hand")
    print(f"opened {target}")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CannotShow(
            f"{file} is no saved report: not text; give a .json or .html file of --world-report"
        ) from None
    except OSError as error:
        raise CannotShow(f"{file} cannot be read: {error.strerror}") from None


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotShow(f"{file} cannot be written: {error.strerror}") from None
    print(f"wrote {file}")
