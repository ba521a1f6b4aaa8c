"""What CI is told: annotations, a step summary, JUnit properties, with and without pytest-xdist."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

# torch is imported in the ranks only: these sessions start the faster for it.
PROGRAM = """
def skipping(rank):
    import torch, torch.distributed as dist
    if rank == 0:
        dist.all_reduce(torch.ones(2))  # the guilty line: 4

def shapes(rank):
    import torch, torch.distributed as dist
    dist.all_reduce(torch.ones((2, 3) if rank else (3, 2)))

def test_skip(world):
    world(dp=2, explain="never").run(skipping)

def test_shapes(world):
    world(dp=2).run(shapes)

def test_fine(world):
    world(dp=2).run(int)
"""
VERDICT = (
    "rank-dependent skip: rank 1 of world [0, 1] never made call 1, all_reduce(SUM, float32[2]) at "
    "test_it.py:4, and has returned; rank 0 waits there"
)
OTHER_PLUGIN = "pytest_github_actions_annotate_failures"


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, in a job of GitHub."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    return pytester


def _run(session: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    session.makepyfile(test_it=body)
    return session.runpytest_subprocess("--junitxml=junit.xml", *options)


def _annotations(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("::")]


def _properties(session: pytest.Pytester, test: str) -> dict[str, str]:
    cases = ElementTree.parse(session.path / "junit.xml").iter("testcase")
    case = next(case for case in cases if case.get("name") == test)
    return {p.get("name", ""): p.get("value", "") for p in case.iter("property")}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_ci_is_told_of_errors_and_warnings(session: pytest.Pytester, workers: str) -> None:
    """Each line is annotated once, each finding has a row, and its test the properties."""
    result = _run(session, PROGRAM, workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    error, warning = sorted(_annotations(result))  # with workers, whichever came first
    assert error == (
        f"::error file=test_it.py,line=4,title=missing_participant::{VERDICT}%0A"
        "in test_it.py::test_skip"
    )
    assert warning.startswith("::warning file=test_it.py,line=8,title=argument_mismatch::")
    table = (session.path / "summary.md").read_text(encoding="utf-8").splitlines()
    assert table[:4] == [
        "### Misuse of collectives",
        "",
        "| test | kind | ranks | line | verdict |",
        "|---|---|---|---|---|",
    ]
    assert (
        "| <code>test_it.py::test_skip</code> | missing_participant | 1 "
        f"| <code>test_it.py:4</code> | {VERDICT} |"
    ) in table
    assert len([row for row in table if "argument_mismatch (warning)" in row]) == 1
    assert _properties(session, "test_skip") == {
        "collectives.kind": "missing_participant",
        "collectives.level": "error",
        "collectives.ranks": "1",
        "collectives.site": "test_it.py:4",
    }
    assert _properties(session, "test_shapes")["collectives.kind"] == "argument_mismatch"
    assert _properties(session, "test_shapes")["collectives.level"] == "warning"
    assert _properties(session, "test_fine") == {}


def test_one_line_is_annotated_once(session: pytest.Pytester) -> None:
    """Whatever the number of tests in which it was at fault; the table has them all."""
    body = "import pytest\n" + PROGRAM.replace(
        "def test_skip(world):", "@pytest.mark.parametrize('n', 'a|b')\ndef test_skip(world, n):"
    )
    result = _run(session, body, "-k", "skip")
    (only,) = _annotations(result)
    assert only.endswith("%0Ain test_it.py::test_skip[a] and 2 more")
    table = (session.path / "summary.md").read_text(encoding="utf-8")
    assert table.count("missing_participant") == 3
    assert "test_skip&#91;&#124;&#93;" in table or "test_skip[&#124;]" in table


def test_the_plugin_that_annotates_failures_is_left_its_lines(session: pytest.Pytester) -> None:
    """It has annotated the line of the test: we add the guilty line where that is another one."""
    session.makepyfile(**{OTHER_PLUGIN: "# stands for the real one"})
    body = PROGRAM + (
        "\ndef test_one_line(world):\n"
        "    import importlib\n"
        "    world(dp=2, explain='never').run(lambda rank: rank or importlib."
        "import_module('torch.distributed').barrier())\n"
    )
    with_it = _run(session, body, "-p", OTHER_PLUGIN, "-k", "skip or one_line")
    with_it.assert_outcomes(failed=2)
    assert [line.partition(",title")[0] for line in _annotations(with_it)] == [
        "::error file=test_it.py,line=4"
    ]
    without = _run(session, body, "-k", "skip or one_line")
    assert len(_annotations(without)) == 2


def test_nothing_is_told_where_nothing_was_found(session: pytest.Pytester) -> None:
    """A session without a finding writes no annotation and no summary."""
    result = _run(session, PROGRAM, "-k", "fine")
    assert result.ret == pytest.ExitCode.OK
    assert _annotations(result) == []
    assert not (session.path / "summary.md").exists()


def test_nothing_is_told_outside_github(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a laptop the output is free of commands to GitHub."""
    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    result = _run(session, PROGRAM, "-k", "skip")
    result.assert_outcomes(failed=1)
    assert _annotations(result) == []


def test_a_step_summary_that_cannot_be_written(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so; the outcome of the session is that of its tests."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(session.path / "missing" / "summary.md"))
    result = _run(session, PROGRAM, "-k", "shapes")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["collectives: no step summary was written: *No such file*"])


def test_an_error_that_a_test_expects_is_none(session: pytest.Pytester) -> None:
    """A test of a fault passes, and CI hears nothing of it."""
    body = PROGRAM.replace(
        '    world(dp=2, explain="never").run(skipping)',
        "    import harness, pytest\n"
        "    with pytest.raises(harness.WorldError):\n"
        '        world(dp=2, explain="never").run(skipping)',
    )
    result = _run(session, body, "-k", "skip")
    result.assert_outcomes(passed=1)
    assert _annotations(result) == []
    assert _properties(session, "test_skip") == {}
