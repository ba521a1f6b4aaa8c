"""One HTML page for a failing test, and the index of all: self-contained, nothing is loaded."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from harness.report._codec import Unreadable
from harness.report._cut import cut
from harness.report._json import Report, dumps, loads, report_from_json, report_to_json
from harness.report._text import render
from harness.report._view import view_of
from harness.verdict._text import ranks_text

MOST_RECORDS = 40_000
"""How many records a page holds; the JSON file beside it has more."""

TEXT_WIDTH = 100

GENERATOR = '<meta name="generator" content="pytest-collectives">'
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_STYLES = ("theme.css", "page.css")
_SCRIPTS = ("model.js", "chart.js", "details.js", "page.js")


@dataclass(frozen=True, slots=True)
class Row:
    """A failing test in the index. ``files`` are pairs of a label and the name of a file."""

    test: str
    verdict: str
    kind: str = ""
    ranks: tuple[int, ...] = ()
    world: str = ""
    duration: float = 0.0
    files: tuple[tuple[str, str], ...] = ()


def page(report: Report) -> str:
    """The page of a failing test."""
    runs = [cut(run, MOST_RECORDS // len(report.runs)) for run in report.runs]
    data = {
        "report": report_to_json(dataclasses.replace(report, runs=tuple(runs))),
        "views": [view_of(run) for run in runs],
        "texts": [render(run, width=TEXT_WIDTH) for run in runs],
        "folder": os.getcwd(),
    }
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    return _filled(
        _asset("page.html"),
        title=_escape(report.test or "a run"),
        policy=_policy(script),
        style="\n".join(_asset(name) for name in _STYLES),
        data=_embedded(dumps(data)),
        script=script,
    )


def index(rows: Sequence[Row], made: str) -> str:
    """The page that lists all failing tests of a session."""
    return _filled(
        _asset("index.html"),
        policy=_policy(""),
        style="\n".join(_asset(name) for name in ("theme.css", "index.css")),
        count=f"{len(rows)} failing test{'' if len(rows) == 1 else 's'}",
        made=_escape(made),
        rows="\n".join(map(_row, rows)),
    )


def report_of_page(text: str) -> Report:
    """The report in one of our pages. Raises ValueError that says what is wrong."""
    found = _DATA.search(text)
    if GENERATOR not in text or found is None:
        raise Unreadable("not a page of pytest-collectives")
    data = loads(found[1])
    return report_from_json(data.get("report") if isinstance(data, dict) else None)


def _row(row: Row) -> str:
    page_file = row.files[0][1] if row.files else ""
    links = " ".join(
        f'<a href="{_escape(name)}">{_escape(label)}</a>' for label, name in row.files[1:]
    )
    kind = row.kind or "failed"
    return (
        f'<tr><td><a class="test" href="{_escape(page_file)}">{_escape(row.test)}</a>'
        f'<p class="verdict">{_escape(row.verdict)}</p></td>'
        f'<td><span class="chip {"bad" if row.kind else ""}">{_escape(kind)}</span></td>'
        f"<td>{_escape(ranks_text(row.ranks)) if row.ranks else ''}</td>"
        f"<td>{_escape(row.world)}</td>"
        f'<td class="number">{row.duration:.2f}&nbsp;s</td><td class="files">{links}</td></tr>'
    )


def _asset(name: str) -> str:
    return (resources.files("harness.report") / "page" / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """A policy that allows this script and no other, and nothing from anywhere."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"'sha256-{digest}'" if script else "'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}"


def _embedded(text: str) -> str:
    """JSON that ends no script element and begins no comment, whatever it holds."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _filled(template: str, **values: str) -> str:
    """The template with ``{{name}}`` replaced, in one pass: values are never looked into."""
    text = re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
    return text.encode("utf-8", "replace").decode("utf-8")


def _escape(text: str) -> str:
    return html.escape(text, quote=True)
