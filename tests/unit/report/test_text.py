"""What the text of a report does with its findings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.record import Frame, Stack
from harness.report import as_data, render
from harness.verdict import Finding, GroupRef, Side


def at(*places: str) -> Stack:
    """Frames from ``file:line``, innermost first."""
    split = [place.rsplit(":", 1) for place in places]
    return tuple(Frame(file, int(line), "main") for file, line in split)


def finding(**fields: object) -> Finding:
    """A small finding."""
    sides = (
        Side(0, "waiting", "barrier()", "call 1 of world [0, 1]", at("a.py:3")),
        Side(1, "returned", guilty=True),
    )
    base = Finding("missing_participant", "rank 1 never came", ranks=(1,), sides=sides)
    return replace(base, **fields)  # type: ignore[arg-type]  # names are Finding's own


def test_the_first_line_is_the_verdict() -> None:
    """The summary of the first finding, as it is."""
    assert render([finding()]).splitlines()[0] == "rank 1 never came"


def test_nothing_to_report() -> None:
    """No findings, no text."""
    assert render([]) == ""


def test_further_findings_are_numbered() -> None:
    """The second finding starts with [2]."""
    text = render([finding(), finding(summary="another")])
    assert "\n[2] another\n" in text


def test_a_warning_is_labelled() -> None:
    """A suspicion is not taken for a failure."""
    assert render([finding(level="warning")]).startswith("warning: rank 1 never came")


def test_ranks_at_fault_are_marked() -> None:
    """A > stands before the ranks at fault."""
    text = render([finding()], source=lambda file, line: "")
    assert "> rank 1  returned" in text
    assert "  rank 0  waiting   barrier() at a.py:3 (call 1 of world [0, 1])" in text


def test_identical_stacks_are_shown_once() -> None:
    """Ranks that stand at the same place share a block."""
    sides = tuple(Side(r, "waiting", "barrier()", "", at("a.py:3", "b.py:9")) for r in range(5))
    text = render([finding(sides=sides)], source=lambda file, line: "")
    assert text.count("at   a.py:3 in main") == 1
    assert "ranks 0-4, barrier():" in text


def test_the_source_line_comes_from_the_frame_first() -> None:
    """A frame's own source wins over the file on disk."""
    frame = Frame("a.py", 3, "main", "dist.barrier()")
    sides = (Side(0, "waiting", "barrier()", "", (frame,)),)
    assert "dist.barrier()" in render([finding(sides=sides)], source=lambda f, n: "other()")


def test_the_source_line_is_read_from_disk_otherwise(tmp_path: Path) -> None:
    """The default source is the file."""
    file = tmp_path / "code.py"
    file.write_text("one = 1\ntwo = 2\n", encoding="utf-8")
    sides = (Side(0, "waiting", "barrier()", "", at(f"{file}:2")),)
    assert "           two = 2" in render([finding(sides=sides)]).splitlines()


def test_paths_are_relative_where_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below the working directory lose their prefix, others keep their path."""
    monkeypatch.chdir(tmp_path)
    sides = (Side(0, "waiting", "x()", "", at(f"{tmp_path}/pkg/a.py:3", "/x/b.py:1")),)
    text = render([finding(sides=sides)], source=lambda file, line: "")
    assert "at   pkg/a.py:3 in main" in text
    assert "from /x/b.py:1 in main" in text


def test_prose_is_wrapped_at_the_width() -> None:
    """Hints and secondary errors keep within the width, tracebacks keep their lines."""
    hint = "word " * 40
    trace = "rank 0's traceback:\nTraceback (most recent call last):\n  File"
    text = render([finding(hints=(hint,), evidence=(trace,))], width=60)
    wrapped = [line for line in text.splitlines() if "word" in line]
    assert len(wrapped) > 1
    assert all(len(line) <= 60 for line in wrapped)
    assert "    Traceback (most recent call last):\n      File" in text


def test_deep_stacks_are_cut() -> None:
    """Twelve frames, then how many more there are."""
    sides = (Side(0, "waiting", "x()", "", at(*[f"a.py:{n}" for n in range(1, 31)])),)
    assert "and 18 frames more" in render([finding(sides=sides)], source=lambda f, n: "")


def test_data_survives_json() -> None:
    """The same finding as data, with group, ranks, sites and loop values."""
    stack = (Frame("a.py", 3, "main", "x", (("i", "3"),)),)
    made = finding(group=GroupRef("dp", (0, 1)), sides=(Side(0, "waiting", "x()", "", stack),))
    data = json.loads(json.dumps(as_data(made)))
    assert data["kind"] == "missing_participant"
    assert data["group"] == {"name": "dp", "ranks": [0, 1]}
    assert data["sides"][0]["stack"] == [
        {"file": "a.py", "line": 3, "function": "main", "loop": {"i": "3"}}
    ]
