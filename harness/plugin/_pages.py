"""What the plugin writes with ``--world-report``: the pages of failing tests, and their index.

A page is written where its test runs, so in a worker of pytest-xdist; what the index says of it
travels with the test's report, and the controller writes the index at the end.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.report import Run

OPTION = "--world-report"
RECORDS_KEPT = 20_000
"""How many records of each rank a run comes with."""

MOST_RUNS = 8
MOST_RECORDS = 200_000
"""How many runs of a test, the last ones, and how many records of them all files may hold."""

INDEX = "index.html"
_GIVEN = "collectives_report"
_OURS = re.compile(r".+-[0-9a-f]{8}(-\d+)?\.(html|json|trace\.json)")
_HEADS = (
    '<meta name="generator" content="pytest-collectives">',
    '{"schema":"pytest-collectives/report"',
    '{"otherData":{"generator":"pytest-collectives"',
)


class Pages:
    """The folder, and the runs of the test that runs now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: deque[Run] = deque(maxlen=MOST_RUNS)
        self._number = 0
        self._written = False

    def begin(self) -> None:
        """Another test begins."""
        self._runs.clear()
        self._number = 0
        self._written = False

    def on_run(self, run: Run) -> None:
        """Keep a run until it is known whether its test fails."""
        self._runs.append(run)
        self._number += 1
        while len(self._runs) > 1 and sum(len(kept.records) for kept in self._runs) > MOST_RECORDS:
            self._runs.popleft()

    def note(self, error: BaseException | None, report: pytest.TestReport) -> None:
        """Write the page of a test that has failed, and say where it is."""
        if not report.failed or not self._runs or self._written:
            return
        self._written = True
        try:
            row = self._write(error, report)
        except OSError as trouble:
            report.sections.append(("world report", f"could not be written: {trouble}"))
            return
        report.world_page = row  # type: ignore[attr-defined]
        report.sections.append(("world report", _shown(self.folder / row["files"][0][1])))

    def _write(self, error: BaseException | None, report: pytest.TestReport) -> dict[str, Any]:
        from harness.report._chrome import trace
        from harness.report._cut import cut
        from harness.report._json import Report, dumps, report_to_json
        from harness.report._page import page

        runs = tuple(cut(run, MOST_RECORDS) for run in self._runs)
        told = getattr(error, "run", None) is self._runs[-1]
        made = Report(
            test=report.nodeid,
            runs=runs,
            failure="" if told else report.longreprtext,
            duration=round(report.duration, 3),
            runs_before=self._number - len(runs),
            made=_now(),
        )
        stem = self._claim(report.nodeid)
        files = {
            ".html": page(made),
            ".json": dumps(report_to_json(made)),
            ".trace.json": dumps(trace(runs[-1])),
        }
        for suffix, text in files.items():
            (self.folder / f"{stem}{suffix}").write_text(text, encoding="utf-8")
        last = runs[-1]
        finding = last.findings[0] if told and last.findings else None
        sizes = [f"{axis}={size}" for axis, size in last.layout.items() if size > 1]
        return {
            "test": report.nodeid,
            "verdict": finding.summary if finding is not None else _crash(report),
            "kind": finding.kind if finding is not None else "",
            "ranks": list(finding.ranks) if finding is not None else [],
            "world": " ".join(sizes) or "1 rank",
            "duration": report.duration,
            "files": [
                ["page", f"{stem}.html"],
                ["json", f"{stem}.json"],
                ["trace", f"{stem}.trace.json"],
            ],
        }

    def _claim(self, nodeid: str) -> str:
        """A name that no other test of the session has, in whatever process: the file is ours."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file, _, test = nodeid.partition("::")
        spoken = f"{file.rpartition('/')[2].removesuffix('.py')}-{test}"
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", spoken).strip("-.")[:80]
        digest = hashlib.sha256(nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        number = 1
        while True:
            stem = f"{plain}-{digest}{f'-{number}' if number > 1 else ''}"
            try:
                (self.folder / f"{stem}.json").touch(exist_ok=False)
            except FileExistsError:
                number += 1
            else:
                return stem


def configured(config: pytest.Config, given: str) -> Pages | None:
    """The pages of the session, if they are asked for; what earlier sessions wrote is removed.

    Raises `pytest.UsageError` for a folder that cannot be written to.
    """
    from_controller = getattr(config, "workerinput", {}).get(_GIVEN)
    if from_controller is not None:
        return Pages(Path(from_controller))
    if not given or config.getoption("collectonly"):
        return None
    by_line = config.getoption("world_report") is not None
    where = OPTION if by_line else "ini option world_report"
    folder = Path(config.invocation_params.dir if by_line else config.rootpath, given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (FileExistsError, NotADirectoryError):
        taken = next(path for path in (folder, *folder.parents) if path.exists())
        raise pytest.UsageError(
            f"{where}: {taken} is a file; give a folder, for example world-report"
        ) from None
    except OSError as error:
        raise pytest.UsageError(
            f"{where}: {folder} cannot be written to ({error.strerror}); give another folder"
        ) from None
    if (folder / INDEX).exists():
        raise pytest.UsageError(
            f"{where}: {folder} holds an {INDEX} that is not of pytest-collectives; give a folder "
            "of its own"
        )
    return Pages(folder)


def worker_starts(pages: Pages | None, workerinput: dict[str, Any]) -> None:
    """Tell a worker of pytest-xdist where pages go."""
    if pages is not None:
        workerinput[_GIVEN] = str(pages.folder)


def summary(pages: Pages | None, terminal: pytest.TerminalReporter) -> None:
    """Write the index of the tests that failed, and say where it is."""
    if pages is None:
        return
    rows = [
        report.world_page
        for category in ("failed", "error")
        for report in terminal.stats.get(category, ())
        if hasattr(report, "world_page")
    ]
    if not rows:
        return
    from harness.report._page import Row, index

    made = [
        Row(**{**row, "ranks": tuple(row["ranks"]), "files": tuple(map(tuple, row["files"]))})
        for row in rows
    ]
    file = pages.folder / INDEX
    try:
        file.write_text(index(made, _now()), encoding="utf-8")
    except OSError as error:
        terminal.write_line(f"{OPTION}: {file} could not be written: {error}", red=True)
        return
    tests = f"{len(rows)} failing test{'' if len(rows) == 1 else 's'}"
    terminal.write_sep("=", "world report")
    terminal.write_line(f"{tests}: {_shown(file)}")


def _clear(folder: Path) -> None:
    """Remove what an earlier session wrote there, and nothing else."""
    for file in folder.iterdir():
        if (file.name == INDEX or _OURS.fullmatch(file.name)) and file.is_file():
            with file.open(encoding="utf-8", errors="replace") as opened:
                head = opened.read(600)
            if not head or any(mark in head for mark in _HEADS):
                file.unlink()


def _crash(report: pytest.TestReport) -> str:
    """The first line of what failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(getattr(crash, "message", "") or report.longreprtext).strip()
    return text.splitlines()[0] if text else "failed"


def _shown(file: Path) -> str:
    try:
        shorter = os.path.relpath(file)
    except ValueError:  # another drive
        return str(file)
    return shorter if len(shorter) < len(str(file)) else str(file)


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
