"""Runs as JSON and back: exact, versioned; docs/reference/json.md is its reference."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.record import Frame, Stack
from harness.report._codec import Tables, Unreadable, decoder, encoder, hints, wrong
from harness.report._data import as_data
from harness.report._run import Run

RUN = "pytest-collectives/run"
REPORT = "pytest-collectives/report"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Report:
    """A failing test: its runs, oldest first.

    ``failure`` is pytest's text of the failure; empty where that is what the last run's findings
    say. ``runs_before`` says how many earlier runs of the test are left out; ``duration`` is the test's
    own, in seconds; ``made`` when the report was written, as ISO 8601.
    """

    test: str
    runs: tuple[Run, ...]
    failure: str = ""
    duration: float = 0.0
    runs_before: int = 0
    made: str = field(default="", compare=False)


def to_json(run: Run) -> dict[str, Any]:
    """The run as dicts, lists, strings and numbers."""
    tables = Tables()
    data: dict[str, Any] = {"schema": RUN, "version": VERSION, "frames": [], "stacks": []}
    for name, hint in hints(Run).items():
        value = getattr(run, name)
        if name == "findings":
            data[name] = [as_data(finding, stack=tables.number) for finding in value]
        else:
            data[name] = encoder(hint)(value, tables)
    data["frames"], data["stacks"] = tables.frames, tables.stacks
    return data


def from_json(data: Any) -> Run:
    """The run that `to_json` was given. Raises ValueError that names what is wrong."""
    _check(data, RUN)
    frames = data.get("frames")
    if not isinstance(frames, list):
        raise wrong("frames", "a list", frames)
    read = [decoder(Frame)(frame, [], f"frames[{n}]") for n, frame in enumerate(frames)]
    stacks = _stacks(data.get("stacks"), read)
    run: Run = decoder(Run)(data, stacks, "")
    return run


def report_to_json(report: Report) -> dict[str, Any]:
    """A failing test with all its runs as plain data."""
    return {
        "schema": REPORT,
        "version": VERSION,
        "test": report.test,
        "failure": report.failure,
        "duration": report.duration,
        "made": report.made,
        "runs_before": report.runs_before,
        "runs": [to_json(run) for run in report.runs],
    }


def report_from_json(data: Any) -> Report:
    """The report in a document of either schema. Raises ValueError that names what is wrong."""
    if isinstance(data, dict) and data.get("schema") == RUN:
        run = from_json(data)
        return Report(run.test, (run,))
    _check(data, REPORT)
    rest = {key: value for key, value in data.items() if key != "runs"}
    report: Report = decoder(Report)({**rest, "runs": []}, [], "")
    runs = data.get("runs")
    if not isinstance(runs, list) or not runs:
        raise wrong("runs", "a list of one run or more", runs)
    read = []
    for number, each in enumerate(runs):
        try:
            read.append(from_json(each))
        except Unreadable as error:
            raise Unreadable(f"runs[{number}]: {error}") from None
    return dataclasses.replace(report, runs=tuple(read))


def dumps(data: Any) -> str:
    """Compact text in ASCII: surrogates in file names and output survive every encoding."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Any:
    """The data in a text. Raises ValueError in one line."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not JSON: {error}") from None


def _check(data: Any, schema: str) -> None:
    if not isinstance(data, dict):
        raise wrong("", f'an object with "schema": "{schema}"', data)
    if data.get("schema") not in (RUN, REPORT):
        raise wrong("schema", f'"{RUN}" or "{REPORT}"', data.get("schema"))
    if data["schema"] != schema:
        raise wrong("schema", f'"{schema}"', data["schema"])
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise wrong("version", f"{VERSION}, which is what this release reads", data.get("version"))


def _stacks(data: Any, frames: Sequence[Frame]) -> list[Stack]:
    numbers = decoder(tuple[tuple[int, ...], ...])(data, [], "stacks")
    try:
        if any(number < 0 for stack in numbers for number in stack):
            raise IndexError
        return [tuple(frames[number] for number in stack) for stack in numbers]
    except IndexError:
        raise Unreadable(f"stacks: a number that is none of the {len(frames)} frames") from None
