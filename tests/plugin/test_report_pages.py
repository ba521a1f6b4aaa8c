"""``--world-report``: what is written, where, by whom, and what is said of it."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from harness.record import GroupMade
from harness.report._json import loads, report_from_json
from harness.report._page import report_of_page

# torch is imported in the ranks only: these sessions start the faster for it.
PROGRAM = """
import pytest

def total(rank):
    import torch, torch.distributed as dist
    value = torch.ones(2)
    dist.all_reduce(value)
    return value[0].item()

def skipping(rank):
    import torch, torch.distributed as dist
    if rank == 0:
        dist.all_reduce(torch.ones(2))
"""

FAILS = PROGRAM + "\ndef test_skip(world):\n    world(dp=2).run(skipping)\n"


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "250")
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\nworld_explain = never")
    return pytester


def _run(session: pytest.Pytester, program: str, *options: str) -> pytest.RunResult:
    session.makepyfile(test_it=program)
    return session.runpytest_subprocess("--world-report=out", *options)


def _names(session: pytest.Pytester) -> set[str]:
    """The files in the folder, without the digest in their names."""
    found = (session.path / "out").iterdir()
    return {re.sub(r"-[0-9a-f]{8}", "", file.name) for file in found}


def _files(session: pytest.Pytester, suffix: str) -> list[Path]:
    return sorted(
        file
        for file in (session.path / "out").iterdir()
        if file.name.endswith(suffix) and file.name != "index.html" and ".trace." not in file.name
    )


def test_a_failing_test_gets_its_files(session: pytest.Pytester) -> None:
    """Page, JSON and trace; the index lists it; the terminal names the page and the index."""
    result = _run(session, FAILS)
    result.assert_outcomes(failed=1)
    assert _names(session) == {
        "index.html",
        "test_it-test_skip.html",
        "test_it-test_skip.json",
        "test_it-test_skip.trace.json",
    }
    (page,), (saved,) = _files(session, ".html"), _files(session, ".json")
    result.stdout.fnmatch_lines(["*- world report -*", f"out/{page.name}"])
    result.stdout.fnmatch_lines(["*= world report =*", "1 failing test: out/index.html"])
    report = report_from_json(loads(saved.read_text("utf-8")))
    assert report == report_of_page(page.read_text("utf-8"))
    assert report.test == "test_it.py::test_skip"
    assert report.failure == ""
    assert [run.findings[0].kind for run in report.runs] == ["missing_participant"]
    # Groups of the grid are there where torch makes them all at the start, as 2.6 does.
    grid = [r for r in report.runs[0].records if isinstance(r, GroupMade) and r.name != "world"]
    kinds = sorted(type(r).__name__ for r in report.runs[0].records if r not in grid)
    assert ["Call", "Ended", "GroupMade", "GroupMade"] == kinds
    trace = json.loads((session.path / "out" / f"{saved.stem}.trace.json").read_text("utf-8"))
    assert any(event["ph"] == "X" for event in trace["traceEvents"])
    index = (session.path / "out" / "index.html").read_text("utf-8")
    assert f'href="{page.name}"' in index
    assert html.escape(report.runs[0].findings[0].summary) in index


def test_without_the_option_nothing_is_written(session: pytest.Pytester) -> None:
    """No folder, no line."""
    session.makepyfile(test_it=FAILS)
    result = session.runpytest_subprocess()
    result.stdout.no_fnmatch_line("*world report*")
    assert not (session.path / "out").exists()


def test_passing_tests_and_tests_without_a_world_write_nothing(session: pytest.Pytester) -> None:
    """Nor do those that are skipped or expected to fail."""
    result = _run(
        session,
        PROGRAM
        + """
def test_passes(world):
    assert world(dp=2).run(total) == [2.0, 2.0]

def test_fails_without_a_world():
    assert 0

@pytest.mark.xfail
def test_expected(world):
    world(dp=2).run(skipping)

def test_caught(world):
    with pytest.raises(AssertionError):
        world(dp=2).run(skipping)
""",
    )
    result.assert_outcomes(passed=2, failed=1, xfailed=1)
    assert _names(session) == set()
    result.stdout.no_fnmatch_line("*world report*")


def test_a_plain_assertion_after_a_clean_run_gets_a_page(session: pytest.Pytester) -> None:
    """With pytest's text of the failure, and all runs of the test."""
    result = _run(
        session,
        PROGRAM
        + """
def test_values(world):
    ranks = world(dp=2)
    ranks.run(total)
    assert ranks.run(total) == [3.0, 3.0]
""",
    )
    result.assert_outcomes(failed=1)
    report = report_of_page(_files(session, ".html")[0].read_text("utf-8"))
    assert [run.findings for run in report.runs] == [(), ()]
    assert "assert [2.0, 2.0] == [3.0, 3.0]" in report.failure
    index = (session.path / "out" / "index.html").read_text("utf-8")
    assert "assert [2.0, 2.0] == [3.0, 3.0]" in index


def test_an_error_in_a_fixture_gets_a_page(session: pytest.Pytester) -> None:
    """A world that fails in a test's setup is reported as well."""
    result = _run(
        session,
        PROGRAM
        + """
@pytest.fixture
def values(world):
    return world(dp=2).run(skipping)

def test_values(values):
    pass
""",
    )
    result.assert_outcomes(errors=1)
    assert len(_files(session, ".html")) == 1
    result.stdout.fnmatch_lines(["1 failing test: out/*"])


def test_with_xdist_each_test_has_its_files(session: pytest.Pytester) -> None:
    """Workers write the pages, the controller one index; names that look alike do not collide."""
    pytest.importorskip("xdist")
    result = _run(
        session,
        PROGRAM
        + """
@pytest.mark.parametrize("text", ["a/b", "a b", "a-b"])
def test_skip(world, text):
    world(dp=2).run(skipping)
""",
        *("-p", "xdist", "-n2"),
    )
    result.assert_outcomes(failed=3)
    pages = _files(session, ".html")
    assert len(pages) == 3
    tests = {report_of_page(page.read_text("utf-8")).test for page in pages}
    assert tests == {f"test_it.py::test_skip[{text}]" for text in ("a/b", "a b", "a-b")}
    index = (session.path / "out" / "index.html").read_text("utf-8")
    assert all(f'href="{page.name}"' in index for page in pages)


def test_what_an_earlier_session_wrote_is_removed(session: pytest.Pytester) -> None:
    """Its pages and its index, and nothing that is not ours."""
    _run(session, FAILS)
    folder = session.path / "out"
    (folder / "notes.html").write_text("mine", encoding="utf-8")
    (folder / "mine-01234567.json").write_text("{}", encoding="utf-8")
    result = _run(session, PROGRAM + "\ndef test_passes():\n    pass\n")
    result.assert_outcomes(passed=1)
    assert {file.name for file in folder.iterdir()} == {"notes.html", "mine-01234567.json"}


def test_an_index_of_others_is_not_overwritten(session: pytest.Pytester) -> None:
    """One error says so."""
    folder = session.mkdir("out")
    (folder / "index.html").write_text("<h1>mine</h1>", encoding="utf-8")
    result = _run(session, FAILS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --world-report: *out holds an index.html that is not of*"])
    assert (folder / "index.html").read_text("utf-8") == "<h1>mine</h1>"


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_file_in_the_way_is_one_error(session: pytest.Pytester, folder: str) -> None:
    """It names the option, the file and the fix."""
    (session.path / "file").touch()
    result = session.runpytest_subprocess(f"--world-report={folder}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --world-report: *file is a file; give a folder, *"])


def test_a_folder_that_cannot_be_written_is_one_error(session: pytest.Pytester) -> None:
    """Said before any test runs."""
    result = session.runpytest_subprocess("--world-report=/proc/nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --world-report: /proc/nowhere cannot be written to (*); give another folder"]
    )


def test_the_ini_file_names_the_folder_from_the_root(session: pytest.Pytester) -> None:
    """``world_report`` is taken from where the ini file is, wherever pytest was started."""
    session.makeini("[pytest]\naddopts = -p no:cacheprovider\nworld_report = pages")
    session.makepyfile(**{"below/test_it": FAILS})
    session.chdir()
    result = session.runpytest_subprocess("--rootdir", str(session.path), "below")
    result.assert_outcomes(failed=1)
    assert (session.path / "pages" / "index.html").exists()


def test_a_test_that_fails_twice_has_one_page(session: pytest.Pytester) -> None:
    """A failure in the call and one in a teardown are one test."""
    _run(
        session,
        PROGRAM
        + """
@pytest.fixture
def breaks():
    yield
    assert 0

def test_skip(world, breaks):
    world(dp=2).run(skipping)
""",
    ).assert_outcomes(failed=1, errors=1)
    assert len(_files(session, ".html")) == 1


def test_many_runs_leave_the_last_ones(session: pytest.Pytester) -> None:
    """The page says how many came before."""
    _run(
        session,
        PROGRAM
        + """
def test_values(world):
    ranks = world(dp=2)
    for _ in range(11):
        ranks.run(total)
    assert 0
""",
    ).assert_outcomes(failed=1)
    report = report_of_page(_files(session, ".html")[0].read_text("utf-8"))
    assert (len(report.runs), report.runs_before) == (8, 3)
