"""What the text of a report does with its findings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.explain import Divergence, Explanation, Way
from harness.record import Call, Frame, GroupMade, Stack, TensorInfo
from harness.report import Run, _calls, as_data, render
from harness.report._calls import Entry
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


def text_of(*findings: Finding, width: int = 80, verbosity: int = 0, **fields: object) -> str:
    """The report on a run with these findings, without the source lines of files."""
    run = replace(Run(findings), **fields)  # type: ignore[arg-type]  # names are Run's own
    return render(run, width=width, verbosity=verbosity, source=lambda file, line: "")


def test_the_first_line_is_the_verdict() -> None:
    """The summary of the first finding, as it is, however long."""
    long = "rank 1 never came " * 20
    assert text_of(finding(summary=long)).splitlines()[0] == long.rstrip()


def test_nothing_to_report() -> None:
    """No findings, no text."""
    assert text_of() == ""
    assert text_of(verbosity=-1) == ""


def test_further_findings_are_numbered() -> None:
    """The second finding starts with [2]."""
    assert "\n[2] another\n" in text_of(finding(), finding(summary="another"))


def test_a_warning_is_labelled() -> None:
    """A suspicion is not taken for a failure."""
    assert text_of(finding(level="warning")).startswith("warning: rank 1 never came")


def test_ranks_at_fault_are_marked() -> None:
    """A > stands before the ranks at fault; what does not fit beside the call stands below."""
    lines = text_of(finding(), width=60).splitlines()
    assert "> rank 1  returned" in lines
    place = lines.index("  rank 0  waits     barrier()  a.py:3")
    assert lines[place + 1] == "                    call 1 of world [0, 1]"
    wide = "  rank 0  waits     barrier()  a.py:3  (call 1 of world [0, 1])"
    assert wide in text_of(finding()).splitlines()


def test_a_site_too_long_for_the_table_stands_whole_below() -> None:
    """A path is to be opened: it is not cut."""
    path = "packages/trainer/models/attention/overlap.py"
    side = Side(0, "waiting", "all_reduce(SUM, float32[128, 4096])", "", at(f"{path}:1041"))
    assert f"    {path}:1041" in text_of(finding(sides=(side,)), width=60)


def test_identical_stacks_are_shown_once() -> None:
    """Ranks that stand at the same place share a block, whatever pass of a loop they are in."""
    frames = [Frame("a.py", 3, "main", "", (("name", name),)) for name in "ab"]
    sides = tuple(Side(r, "waiting", "barrier()", "", (frames[r % 2],)) for r in range(5))
    text = text_of(finding(sides=sides))
    assert text.count("at   a.py:3 in main") == 1
    assert "in main (name=a/b)" in text
    assert "ranks 0-4, barrier():" in text


def test_one_stack_of_the_ranks_that_are_not_at_fault() -> None:
    """By default the others are shown by one of them; with -v all are."""
    sides = (*(Side(r, "waiting", "x()", "", at(f"a.py:{r}")) for r in range(4)),)
    guilty = Side(4, "returned", "x()", "", at("b.py:9"), guilty=True)
    text = text_of(finding(sides=(*sides, guilty)))
    assert text.count("  at   ") == 2
    assert "and 3 other places (-v shows more)" in text
    assert text_of(finding(sides=(*sides, guilty)), verbosity=1).count("  at   ") == 5


def test_the_source_line_comes_from_the_frame_first() -> None:
    """A frame's own source wins over the file on disk."""
    frame = Frame("a.py", 3, "main", "dist.barrier()")
    run = Run((finding(sides=(Side(0, "waiting", "barrier()", "", (frame,)),)),))
    assert "dist.barrier()" in render(run, source=lambda f, n: "other()")


def test_the_source_line_is_read_from_disk_otherwise(tmp_path: Path) -> None:
    """The default source is the file."""
    file = tmp_path / "code.py"
    file.write_text("one = 1\ntwo = 2\n", encoding="utf-8")
    run = Run((finding(sides=(Side(0, "waiting", "barrier()", "", at(f"{file}:2")),)),))
    assert "           two = 2" in render(run).splitlines()


def test_paths_are_relative_where_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below the working directory lose their prefix, others keep their path."""
    monkeypatch.chdir(tmp_path)
    sides = (Side(0, "waiting", "x()", "", at(f"{tmp_path}/pkg/a.py:3", "/x/b.py:1")),)
    text = text_of(finding(sides=sides))
    assert "at   pkg/a.py:3 in main" in text
    assert "from /x/b.py:1 in main" in text


def test_prose_is_wrapped_at_the_width() -> None:
    """Hints and secondary errors keep within the width, tracebacks keep their lines."""
    hint = "word " * 40
    trace = "rank 0's traceback:\nTraceback (most recent call last):\n  File"
    text = text_of(finding(hints=(hint,), evidence=(trace,)), width=60)
    wrapped = [line for line in text.splitlines() if "word" in line]
    assert len(wrapped) > 1
    assert all(len(line) <= 60 for line in wrapped)
    assert "    Traceback (most recent call last):\n      File" in text


def test_deep_stacks_are_cut() -> None:
    """Four frames, or twelve with -v, then how many more there are."""
    made = finding(sides=(Side(0, "waiting", "x()", "", at(*[f"a.py:{n}" for n in range(1, 31)])),))
    assert "and 26 frames more (-v shows 8 of them)" in text_of(made)
    assert "and 18 frames more" in text_of(made, verbosity=1)


def test_what_followed_is_folded() -> None:
    """Two errors that followed are told, more are counted; with -v all are told."""
    two, many = (tuple(f"rank {r}: lost" for r in range(n)) for n in (2, 5))
    assert "  - rank 1: lost" in text_of(finding(secondary=two))
    assert "  5 errors of other ranks (-v shows them)" in text_of(finding(secondary=many))
    assert "  - rank 4: lost" in text_of(finding(secondary=many), verbosity=1)


def guard(*ways: Way, source: str = "if mask.numel() > 0:") -> Divergence:
    """A divergence at loss.py:38."""
    return Divergence("loss.py", 38, "f", source, "if", ways)


def test_the_divergence_comes_after_the_verdict() -> None:
    """The line, and for each way its outcome and the values that decided it, in columns."""
    values = ("mask.numel()", "150"), ("mask", "float32[150]")
    others = ("mask.numel()", "0"), ("mask", "float32[0]")
    explanation = Explanation(guard(Way((0,), "True", values), Way((1, 2), "False", others)))
    assert text_of(finding(), explanation=explanation).splitlines()[1:5] == [
        "",
        "diverged at loss.py:38   if mask.numel() > 0:",
        "    rank 0      True    mask.numel() = 150    mask: float32[150]",
        "    ranks 1, 2  False   mask.numel() = 0      mask: float32[0]",
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("float32[150]", "x: float32[150]"),
        ("bfloat16[2, 3] 0.1 ... 0.5", "x: bfloat16[2, 3] 0.1 ... 0.5"),
        ("dict of 3: 'a', 'b', 'c'", "x: dict of 3: 'a', 'b', 'c'"),
        ("list[3]", "x: list[3]"),
        ("150", "x = 150"),
        ("'of'", "x = 'of'"),
        ("[1, 2]", "x = [1, 2]"),
        ("None", "x = None"),
    ],
)
def test_how_a_value_is_written(value: str, written: str) -> None:
    """What only sums up a tensor or a collection follows a colon, a value an equals sign."""
    explanation = Explanation(guard(Way((0,), "True", (("x", value),)), Way((1,), "False")))
    assert f"rank 0  True    {written}" in text_of(finding(), explanation=explanation)


def test_a_cause_that_was_not_found() -> None:
    """The reason, and where ranks took different ways, said not to be known as the cause."""
    ways = Way((0,), "True"), Way((1,), "False")
    explanation = Explanation(None, "the fault did not occur again", (guard(*ways),))
    text = text_of(finding(), explanation=explanation)
    assert "no line is named as the cause: the fault did not occur again" in text
    assert "none of them is known to be the cause" in " ".join(text.split())
    assert "  loss.py:38   if mask.numel() > 0:\n    rank 0: True; rank 1: False" in text
    assert "second run" not in text_of(finding())


def test_the_explanation_is_of_the_first_finding() -> None:
    """Another finding has nothing to do with it."""
    explanation = Explanation(guard(Way((0,), "True"), Way((1,), "False")))
    assert text_of(finding(), finding(), explanation=explanation).count("diverged at") == 1


def test_the_advice_names_the_divergence() -> None:
    """Where the guard is known, the advice is about its line."""
    explanation = Explanation(guard(Way((0,), "True"), Way((1,), "False")))
    assert "whatever decides at loss.py:38" in text_of(finding(), explanation=explanation)
    assert "make this call on every rank" in text_of(finding())


def test_a_style_is_given_the_role_of_each_part() -> None:
    """What is written is up to it; without one the text is plain."""
    made = finding(sides=(Side(0, "waiting", "x()", "", at("a.py:3")),))
    marked = render(Run((made,)), style=lambda role, text: f"<{role}>" if role else text)
    assert marked.splitlines()[0] == "<verdict>"
    assert "  at   <place> in main" in marked


def calls(rank: int, count: int, skipped: int = -1) -> list[Call]:
    """all_reduce in each pass of a loop, but for one."""
    made: list[Call] = []
    for step in range(count):
        if step != skipped:
            frames = (Frame("a.py", 3, "f", "", (("step", str(step)),)), *at("b.py:9", "c.py:1"))
            tensors = (TensorInfo("float32", (3,)),)
            made.append(
                Call(rank, len(made), 0, "w", len(made), "all_reduce", "SUM", None, None, None,
                     tensors, (), None, None, False, frames, float(step))
            )  # fmt: skip
    return made


def test_only_calls_around_the_finding_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 ranks with 512 records each, a window of each: the cost is bounded."""
    everyone = tuple(range(64))
    records = [GroupMade(rank, "w", everyone, "world") for rank in everyone]
    made = {rank: calls(rank, 512, 400 if rank == 5 else -1) for rank in everyone}
    sides = tuple(
        Side(rank, "waiting", "all_reduce(...)", "", made[rank][400].stack, rank == 5, 400)
        for rank in everyone
    )
    one = finding(group=GroupRef("world", everyone), index=401, ranks=(5,), sides=sides)
    run = Run((one,), world_size=64, records=(*records, *(c for cs in made.values() for c in cs)))
    looked_at: list[Entry] = []

    def count(*fields: Any) -> Entry:
        looked_at.append(Entry(*fields))
        return looked_at[-1]

    monkeypatch.setattr(_calls, "Entry", count)
    text = render(run, source=lambda file, line: "")
    assert "  > world 401  all_reduce  a.py:3 (step=400)" in text
    assert "    world 402  all_reduce  a.py:3 (step=401)" in text
    assert len(looked_at) <= 64 * 32


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
