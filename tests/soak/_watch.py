"""What the soak notes during a session: the end of each world, and samples of what is held."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness import World
from tests.soak._leaks import Sample, look, settled

EVERY = 50
LONGEST = 6000
IDLE = 6.0
"""Seconds without a world in which the server imports what optimizers need."""

WORLDS, SAMPLES = "worlds.jsonl", "samples.jsonl"


class Watch:
    """Writes one line for each world and for each sample to files of the folder ``notes``."""

    def __init__(self, notes: Path, worlds: int) -> None:
        self._notes = notes
        self._every = max(1, min(EVERY, worlds // 12))
        self._started = time.monotonic()
        self._worlds = 0
        self._wrong = ""
        self._seconds = 0.0
        self._first: Sample | None = None

    def begin(self) -> None:
        """Before the first world: leaks count from when the server has imported all it will."""
        if self._first is not None:
            return
        with World(dp=2) as world:
            world.run(int)
        time.sleep(IDLE)
        with World(dp=2) as world:
            world.run(int)
        self._first = look(0, self._age())
        self._write(SAMPLES, asdict(self._first))

    def reported(self, report: pytest.TestReport) -> None:
        """Take in the report of one phase of the running test."""
        self._seconds += report.duration
        if not report.passed:
            self._wrong += f"{report.when}: {report.longreprtext[-LONGEST:]}\n"

    def ended(self, item: pytest.Item) -> None:
        """The test of a world is over; every so often, a sample."""
        case = getattr(item, "callspec").params["case"]  # noqa: B009 - only functions have one
        note = {
            "id": case.id,
            "kind": case.kind,
            "seconds": round(self._seconds, 3),
            "wrong": self._wrong,
        }
        self._write(WORLDS, note)
        self._wrong, self._seconds = "", 0.0
        self._worlds += 1
        _forget(item)
        if self._worlds % self._every == 0 and self._first is not None:
            self._write(SAMPLES, asdict(settled(self._worlds, self._age(), self._first)))

    def _age(self) -> float:
        return time.monotonic() - self._started

    def _write(self, name: str, note: dict[str, Any]) -> None:
        with (self._notes / name).open("a") as stream:
            stream.write(json.dumps(note) + "\n")


def _forget(item: pytest.Item) -> None:
    """Drop what pytest itself keeps of each test to the end of the session.

    That is the reports, and what ranks printed: some KiB a test, which would hide a leak.
    """
    item._report_sections.clear()
    reporter = item.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.stats.clear()
