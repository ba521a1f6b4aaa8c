"""Saved runs: exact round trip, a schema that real output fits, one clear error for the rest."""

from __future__ import annotations

import copy
import dataclasses
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from harness.record import Call
from harness.report import Run
from harness.report._codec import RECORDS
from harness.report._cut import cut
from harness.report._data import as_data
from harness.report._json import (
    Report,
    dumps,
    from_json,
    loads,
    report_from_json,
    report_to_json,
    to_json,
)
from harness.report._schema import schema
from harness.verdict import Finding, Side
from tests.unit.report import runs

KEPT = json.loads((resources.files("harness.report") / "run.schema.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "run", [runs.skipped(), runs.everything(), Run()], ids=["skipped", "everything", "empty"]
)
def test_a_run_comes_back_as_it_was(run: Run) -> None:
    """Through text and back, every record and finding is equal, and of the same types."""
    read = from_json(loads(dumps(to_json(run))))
    assert read == run
    assert repr(read) == repr(run)


def test_every_kind_of_record_is_tried() -> None:
    """The round trip leaves no kind of record out."""
    assert {type(record).__name__ for record in runs.everything().records} == set(RECORDS)


def test_stacks_are_held_once() -> None:
    """Records with one stack refer to one entry of the table."""
    data = to_json(runs.skipped())
    assert len(data["stacks"]) == 1
    assert len(data["frames"]) == 2


@pytest.mark.parametrize("run", [runs.skipped(), runs.everything()], ids=["skipped", "everything"])
def test_what_is_written_fits_the_schema(run: Run) -> None:
    """The kept schema takes runs and reports."""
    validator = jsonschema.Draft202012Validator(KEPT)
    validator.check_schema(KEPT)
    validator.validate(loads(dumps(to_json(run))))
    validator.validate(
        loads(dumps(report_to_json(Report("t", (run, run), "failed", 1.5, 3, "now"))))
    )


def test_the_schema_says_no() -> None:
    """It is no schema that takes everything."""
    data = to_json(runs.skipped())
    data["records"][3]["rank"] = "one"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(KEPT).validate(data)


def test_the_kept_schema_is_that_of_the_dataclasses() -> None:
    """If not: python -m harness.report._schema > harness/report/run.schema.json"""
    assert schema() == KEPT


def test_a_finding_has_one_form() -> None:
    """``as_data`` names every field of a finding and of its sides."""
    data = as_data(runs.skipped().findings[0])
    assert {field.name for field in dataclasses.fields(Finding)} == set(data)
    assert {field.name for field in dataclasses.fields(Side)} == set(data["sides"][0])


def test_a_report_comes_back_as_it_was() -> None:
    """All runs of a test, its failure and its numbers."""
    report = Report("t.py::t", (runs.everything(), runs.skipped()), "E  no", 2.5, 4, "now")
    read = report_from_json(loads(dumps(report_to_json(report))))
    assert read == report
    assert read.made == "now"


def test_a_single_run_is_read_as_a_report() -> None:
    """Both documents can be shown."""
    run = runs.skipped()
    assert report_from_json(to_json(run)) == Report(run.test, (run,))


def _broken(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(to_json(runs.skipped())) | changes


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "the document: expected an object"),
        ({}, 'schema: expected "pytest-collectives/run" or'),
        (_broken(schema="else"), "schema: expected"),
        (_broken(version=2), "version: expected 1, which is what this release reads, not 2"),
        (_broken(version=True), "version: expected 1"),
        (_broken(records=3), "records: expected a list, not 3"),
        (_broken(records=[{"record": "Nothing"}]), 'records[0]: expected an object whose "record"'),
        (_broken(records=[{"record": "Started", "rank": 0}]), "records[0]: 'time' is missing"),
        (
            _broken(records=[{"record": "Started", "rank": "0", "time": 1}]),
            "records[0].rank: expected a whole number, not '0'",
        ),
        (_broken(stacks=[[99]]), "stacks: a number that is none of the 2 frames"),
        (_broken(stacks=[[-1]]), "stacks: a number that is none of the 2 frames"),
        (_broken(frames=None), "frames: expected a list, not None"),
        (_broken(left_out={"a": 1}), "left_out: expected an object whose keys are whole numbers"),
        (_broken(began="now"), "began: expected a number, not 'now'"),
        (_broken(output=[{"stdout": 1}]), "output[0].stdout: expected text, not 1"),
    ],
)
def test_other_data_is_refused(data: Any, said: str) -> None:
    """One line names the place and what was expected there."""
    with pytest.raises(ValueError, match=r"expected|missing|none of") as caught:
        report_from_json(data)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_in_a_run_of_a_report_names_the_run() -> None:
    """The place begins with the run's number."""
    data = report_to_json(Report("t", (runs.skipped(),)))
    data["runs"][0]["ended"] = None
    with pytest.raises(ValueError, match=r"runs\[0\]: ended: expected a number, not None"):
        report_from_json(data)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a": 1} b'])
def test_what_is_no_json_is_refused(text: str) -> None:
    """Deep nesting is no crash either."""
    with pytest.raises(ValueError, match="not JSON"):
        loads(text)


def test_unknown_fields_are_left_alone() -> None:
    """A later release may add fields without another version."""
    data = _broken(later={"more": 1})
    assert from_json(data) == runs.skipped()


def test_a_run_is_cut_to_the_last_records_of_each_rank() -> None:
    """Groups stay, and what is left out is counted."""
    run = cut(runs.skipped(), 6)
    calls = [record for record in run.records if isinstance(record, Call)]
    assert {call.rank for call in calls} == {0, 1}
    assert len([record for record in run.records if record.rank == 1]) == 1 + 3
    assert run.left_out == {0: 5, 1: 7 + 5}
    assert cut(run, 100) is run
