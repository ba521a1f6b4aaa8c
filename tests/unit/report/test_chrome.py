"""Traces in the Trace Event format."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from harness.record import Finished, GroupMade, Record
from harness.report import Run
from harness.report._chrome import trace
from harness.report._json import dumps, loads
from tests.unit.report.runs import call, everything, skipped


def _events(run: Run, phase: str) -> list[dict[str, Any]]:
    data = loads(dumps(trace(run)))
    return [event for event in data["traceEvents"] if event["ph"] == phase]


def test_a_process_for_each_rank() -> None:
    """Ranks are named, in order, and those at fault say so."""
    names = [e["args"]["name"] for e in _events(skipped(), "M") if e["name"] == "process_name"]
    assert names == ["rank 0", "rank 1 (at fault)"]


def test_a_slice_for_each_call() -> None:
    """Times are microseconds from the beginning; an unfinished call lasts to the end."""
    slices = _events(skipped(), "X")
    assert len(slices) == 7
    assert (slices[0]["ts"], slices[0]["dur"]) == (100_000, 300_000)
    assert slices[0]["cat"] == "world"
    last = [s for s in slices if s["pid"] == 0][-1]
    assert last["ts"] + last["dur"] == 5_000_000
    assert last["args"]["waits for"] == "rank 1"


def test_arrows_join_calls_that_met() -> None:
    """Each arrow has a beginning and an end within slices, and does not go back in time."""
    run = skipped()
    begins = {event["id"]: event for event in _events(run, "s")}
    ends = {event["id"]: event for event in _events(run, "f")}
    assert set(begins) == set(ends)
    assert len(begins) == 3
    slices = _events(run, "X")
    for name, begin in begins.items():
        assert begin["ts"] <= ends[name]["ts"]
        for event in (begin, ends[name]):
            assert any(
                (s["pid"], s["tid"]) == (event["pid"], event["tid"])
                and s["ts"] <= event["ts"] <= s["ts"] + s["dur"]
                for s in slices
            )


def test_the_missing_call_and_the_ends_are_instants() -> None:
    """They have a scope, as the format wants it."""
    instants = _events(skipped(), "i")
    assert {(e["pid"], e["name"], e["s"]) for e in instants} == {
        (1, "missing: all_reduce(SUM, float32[2, 3])", "p"),
        (1, "returned", "p"),
    }


def test_calls_in_flight_do_not_overlap_in_a_row() -> None:
    """Calls under way at the same time get rows of their own: slices of a row must nest."""
    records: list[Record] = [
        GroupMade(0, "0", (0,), "world"),
        call(0, 0, 0, 1.0, async_op=True),
        call(0, 1, 1, 2.0, async_op=True),
        Finished(0, 0, 0, 3.0),
        Finished(0, 1, 0, 4.0),
        call(0, 2, 2, 5.0),
        Finished(0, 2, 0, 6.0),
    ]
    slices = _events(Run(world_size=1, records=tuple(records), ended=7.0), "X")
    rows = defaultdict(list)
    for each in slices:
        rows[each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    assert sorted(map(len, rows.values())) == [1, 2]
    for spans in rows.values():
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin


def test_every_kind_of_record_can_be_there() -> None:
    """Nothing in a run keeps a trace from being made."""
    assert _events(everything(), "X")
