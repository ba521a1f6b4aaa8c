"""``python -m harness show``."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.report._json import Report, dumps, loads, report_from_json, report_to_json, to_json
from harness.report._page import page, report_of_page
from tests.unit.report.runs import skipped

REPORT = Report("test_loss.py::test_it", (skipped(),), "", 1.0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A report as --world-report writes it."""
    file = tmp_path / "test_loss.json"
    file.write_text(dumps(report_to_json(REPORT)), encoding="utf-8")
    return file


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser that opens nothing is asked to open."""
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    return opened


def test_a_saved_report_is_printed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The test, and the text of its findings."""
    assert main(["show", str(saved)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("test_loss.py::test_it\n")
    assert "rank 1 never made call 2" in printed


def test_a_page_is_printed_from_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page alone is enough."""
    file = tmp_path / "page.html"
    file.write_text(page(REPORT), encoding="utf-8")
    assert report_of_page(page(REPORT)) == REPORT
    assert main(["show", str(file)]) == 0
    assert "rank 1 never made call 2" in capsys.readouterr().out


def test_a_single_run_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What somebody saved of ``WorldError.run`` can be shown, too."""
    file = tmp_path / "run.json"
    file.write_text(dumps(to_json(skipped())), encoding="utf-8")
    assert main(["show", str(file)]) == 0
    assert "rank 1 never made call 2" in capsys.readouterr().out


def test_a_failure_without_findings_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """pytest's text, where the run itself was clean."""
    clean = Report("t", (skipped().__class__(world_size=1),), "E  assert 1 == 2")
    file = tmp_path / "t.json"
    file.write_text(dumps(report_to_json(clean)), encoding="utf-8")
    assert main(["show", str(file)]) == 0
    assert "assert 1 == 2" in capsys.readouterr().out


def test_conversions(saved: Path, tmp_path: Path) -> None:
    """A page and a trace from JSON."""
    html, trace = tmp_path / "out.html", tmp_path / "out.json"
    assert main(["show", str(saved), "--html", str(html), "--trace", str(trace)]) == 0
    assert report_of_page(html.read_text("utf-8")) == REPORT
    assert "traceEvents" in loads(trace.read_text("utf-8"))


def test_open_takes_the_page_beside_the_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that was written with the JSON file is the one to open."""
    opened = _opened(monkeypatch)
    beside = saved.with_suffix(".html")
    beside.write_text(page(REPORT), encoding="utf-8")
    assert main(["show", str(saved), "--open"]) == 0
    assert opened == [beside.as_uri()]


def test_open_makes_a_page_where_there_is_none(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made in a folder for temporary files, and stays for the browser."""
    opened = _opened(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["show", str(saved), "--open"]) == 0
    made = Path(opened[0].removeprefix("file://"))
    assert report_of_page(made.read_text("utf-8")) == report_from_json(report_to_json(REPORT))


def test_no_browser(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what to do."""
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    saved.with_suffix(".html").write_text(page(REPORT), encoding="utf-8")
    assert main(["show", str(saved), "--open"]) == 2
    assert "open it by hand" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"\xff\xfe\x00", "not text"),
        (b"{}", 'schema: expected "pytest-collectives/run"'),
        (b"<html>", "not JSON"),
        (b'<meta name="generator" content="pytest-collectives">', "not a page of"),
    ],
)
def test_a_bad_file_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    """Exit code 2, one line that names the file and what is wrong."""
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    assert main(["show", str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"python -m harness show: error: {file} is no saved report: ")
    assert said in error
    assert error.count("\n") == 1


def test_a_missing_file_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As is a place that cannot be written to."""
    assert main(["show", str(tmp_path / "no.json")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_an_unwritable_target_is_one_error(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the target."""
    assert main(["show", str(saved), "--html", str(tmp_path / "no" / "out.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
