"""How a world's report is shown by pytest: its length, its colours, the styles of tracebacks."""

from __future__ import annotations

import re

import pytest

# torch is imported in the ranks only: these sessions start the faster for it.
PROGRAM = """
def skipping(rank):
    import torch, torch.distributed as dist
    dist.barrier()
    if rank == 0:
        dist.all_reduce(torch.ones(2))

def test_it(world):
    world(dp=2, explain="never").run(skipping)
"""
VERDICT = "harness.WorldError: rank-dependent skip: rank 1 of world [0, 1] never made call 2"
ESCAPE = "\x1b"


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session of its own, in a process of its own, on a usual terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider")
    pytester.makepyfile(test_it=PROGRAM)
    return pytester


def _error(result: pytest.RunResult) -> list[str]:
    """The lines of the error, without colours."""
    plain = (re.sub(r"\x1b\[[\d;]*m", "", line) for line in result.outlines)
    return [line[1:].strip() and line[8:] for line in plain if line.startswith("E  ")]


def test_the_report_fits_the_terminal(session: pytest.Pytester) -> None:
    """All lines of the error but the verdict keep within 80 columns."""
    result = session.runpytest_subprocess()
    lines = [line for line in result.outlines if line.startswith("E  ")]
    assert VERDICT in lines[0]
    assert len(lines) > 10
    assert max(map(len, lines[1:])) <= 80
    assert "  > world 2  all_reduce  test_it.py:5  - never made" in _error(result)


def test_quiet_shows_the_verdict_alone(session: pytest.Pytester) -> None:
    """With -q the error is one line."""
    result = session.runpytest_subprocess("-q")
    (only,) = _error(result)
    assert only.startswith(VERDICT)


def test_verbose_shows_more(session: pytest.Pytester) -> None:
    """With -v the stacks of all ranks are there, with all their frames."""
    deep = PROGRAM.replace("def skipping(rank):", "def innermost(rank):") + (
        "def deep(rank, left=8):\n"
        "    return deep(rank, left - 1) if left else innermost(rank)\n"
        "def skipping(rank):\n"
        "    return deep(rank)\n"
    )
    session.makepyfile(test_it=deep)
    assert any("frames more (-v shows" in line for line in _error(session.runpytest_subprocess()))
    verbose = _error(session.runpytest_subprocess("-v"))
    assert len([line for line in verbose if line.startswith("  from ")]) > 8


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_colours_where_pytest_uses_them(session: pytest.Pytester, workers: str) -> None:
    """Sites, ranks at fault and advice have colours; the text of JUnit has none, nor escapes."""
    result = session.runpytest_subprocess("--color=yes", "--junitxml=junit.xml", workers)
    out = result.stdout.str()
    assert f"  at   {ESCAPE}[36mtest_it.py:5{ESCAPE}[0m in skipping" in out
    assert f"{ESCAPE}[31m> rank 1  returned{ESCAPE}[0m" in out
    assert f"{ESCAPE}[31m{ESCAPE}[1m- never made{ESCAPE}[0m" in out
    assert f"{ESCAPE}[1mwhat to do:{ESCAPE}[0m" in out
    xml = (session.path / "junit.xml").read_text(encoding="utf-8")
    assert "what to do:" in xml
    assert ESCAPE not in xml
    assert "x1B" not in xml


def test_the_text_is_the_same_without_colours(session: pytest.Pytester) -> None:
    """Nothing is lost where there are none."""
    plain = session.runpytest_subprocess("--color=no")
    assert ESCAPE not in plain.stdout.str()
    assert _error(plain) == _error(session.runpytest_subprocess("--color=yes"))


@pytest.mark.parametrize("style", ["short", "line", "native", "no", "long"])
def test_every_style_of_traceback(session: pytest.Pytester, style: str) -> None:
    """The verdict is shown in each, with colours in force."""
    result = session.runpytest_subprocess(f"--tb={style}", "--color=yes")
    result.assert_outcomes(failed=1)
    assert "INTERNALERROR" not in result.stdout.str()
    plain = re.sub(r"\x1b\[[\d;]*m", "", result.stdout.str())
    assert VERDICT.partition("rank 1 of")[0] in plain
    if style in ("short", "native", "long"):
        assert "what to do:" in plain
