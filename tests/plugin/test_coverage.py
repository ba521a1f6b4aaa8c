"""Code that runs in ranks is measured with pytest-cov and with coverage, and nobody sets that up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

coverage: Any = pytest.importorskip("coverage")
pytest.importorskip("pytest_cov")

LOSS = """
LARGE = 5                        # 2

def loss(rank):
    if rank == 0:                # 5
        value = 1                # 6
    else:
        value = 2                # 8
    if rank > LARGE:             # 9
        value = 3                # 10
    return value                 # 11

def failing(rank):
    before = rank                # 14
    raise ValueError(before)     # 15

def waiting(rank):
    import torch, torch.distributed as dist
    before = rank                # 19
    if rank == 0:                # 20
        dist.all_reduce(torch.ones(1))
"""

TESTS = """
import pytest

def run(rank):
    from pkg.losses import loss
    return loss(rank)

def test_it(world):
    assert world(dp=2).run(run) == [1, 2]
"""

RUN_BY_BOTH = {2, 4, 5, 6, 8, 9, 11}
"""Lines that `TESTS` run on one of its ranks or on both; the imports of the others are counted too."""

DEFINITIONS = {13, 17}


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A repository with a package that only ranks import."""
    for name in ("COV_CORE_SOURCE", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -W error")
    pytester.mkpydir("pkg")
    (pytester.path / "pkg" / "losses.py").write_text(LOSS)
    pytester.makepyfile(test_it=TESTS)
    return pytester


def _measured(folder: Path) -> Any:
    data = coverage.CoverageData(str(folder / ".coverage"))
    data.read()
    return data


def _lines(folder: Path, data: Path | None = None) -> set[int]:
    return set(_measured(data or folder).lines(str(folder / "pkg" / "losses.py")) or ())


@pytest.mark.parametrize("options", [("--cov-branch",), ("-n2",), ("--world-reuse=module",)])
def test_lines_that_only_ranks_run_are_counted(
    session: pytest.Pytester, options: tuple[str, ...]
) -> None:
    """With branches, in workers of pytest-xdist, in worlds that stay up; and no file is left over."""
    session.makepyfile(test_it=TESTS, test_again=TESTS)
    result = session.runpytest_subprocess("--cov=pkg", *options)
    result.assert_outcomes(passed=2)
    assert RUN_BY_BOTH | DEFINITIONS == _lines(session.path)
    assert [".coverage"] == [each.name for each in session.path.glob(".coverage*")]


def test_each_rank_adds_the_branches_that_it_takes(session: pytest.Pytester) -> None:
    """Both ways out of the ``if`` are counted, one of each rank; coverage.py misses nothing."""
    result = session.runpytest_subprocess("--cov=pkg", "--cov-branch")
    result.assert_outcomes(passed=1)
    # "No data was collected", "Module pkg was never imported": not in the pytest process.
    assert "CoverageWarning" not in result.stdout.str() + result.stderr.str()
    arcs = _measured(session.path).arcs(str(session.path / "pkg" / "losses.py")) or []
    assert {(5, 6), (5, 8)} <= set(arcs)
    assert (9, 10) not in arcs


def test_a_package_that_only_ranks_import_counts_as_imported(session: pytest.Pytester) -> None:
    """A source that is a package, not a folder: coverage.py looks whether it was imported."""
    session.makeini("[pytest]\naddopts = -p no:cacheprovider\npythonpath = src\n")
    (session.path / "src").mkdir()
    (session.path / "pkg").rename(session.path / "src" / "pkg")
    result = session.runpytest_subprocess("--cov=pkg", "--cov=absent")
    result.assert_outcomes(passed=1)
    said = result.stdout.str() + result.stderr.str()
    assert "Module absent was never imported" in said
    assert "Module pkg was never imported" not in said
    assert RUN_BY_BOTH | DEFINITIONS == _lines(session.path / "src", session.path)


def test_coverage_run_counts_ranks_too(session: pytest.Pytester) -> None:
    """Without pytest-cov, and without a configuration."""
    result = session.run(
        sys.executable, "-m", "coverage", "run", "--source=pkg", "-m", "pytest", "-p", "no:cov"
    )
    result.assert_outcomes(passed=1)
    assert RUN_BY_BOTH | DEFINITIONS == _lines(session.path)


def test_a_script_under_coverage_run_counts_ranks_too(session: pytest.Pytester) -> None:
    """Outside pytest what ranks have measured is there when the script ends."""
    session.makepyfile(
        script="""
from harness import World

def run(rank):
    from pkg.losses import loss
    return loss(rank)

if __name__ == "__main__":
    with World(dp=2) as world:
        world.run(run)
"""
    )
    assert 0 == session.run(sys.executable, "-m", "coverage", "run", "script.py").ret
    assert RUN_BY_BOTH | DEFINITIONS == _lines(session.path)


def test_ranks_that_fail_count_up_to_their_error(session: pytest.Pytester) -> None:
    """The lines of a rank that raised, and of one that returned though another waits."""
    session.makepyfile(
        test_it="""
import pytest
from harness import WorldError

def fail(rank):
    from pkg.losses import failing
    failing(rank)

def wait(rank):
    from pkg.losses import waiting
    waiting(rank)

def test_it(world):
    for function in (fail, wait):
        with pytest.raises(WorldError):
            world(dp=2).run(function)
"""
    )
    session.runpytest_subprocess("--cov=pkg").assert_outcomes(passed=1)
    assert {14, 15, 19, 20} <= _lines(session.path)


def test_lines_are_put_down_to_the_test_whose_ranks_ran_them(session: pytest.Pytester) -> None:
    """With --cov-context=test, and a world that serves several tests."""
    session.makepyfile(test_it=TESTS + "\ndef test_more(world):\n    world(dp=2).run(run)\n")
    result = session.runpytest_subprocess("--cov=pkg", "--cov-context=test", "--world-reuse=module")
    result.assert_outcomes(passed=2)
    by_line = _measured(session.path).contexts_by_lineno(str(session.path / "pkg" / "losses.py"))
    assert ["test_it.py::test_it|run", "test_it.py::test_more|run"] == sorted(by_line[6])


def test_relative_settings_mean_the_folder_of_the_session(session: pytest.Pytester) -> None:
    """``source`` and ``omit`` of the configuration, though the test works somewhere else."""
    (session.path / ".coveragerc").write_text("[run]\nsource = pkg\nomit = pkg/other.py\n")
    (session.path / "pkg" / "other.py").write_text("value = 1\n")
    session.makepyfile(
        test_it="""
def run(rank):
    import pkg.other
    from pkg.losses import loss
    return loss(rank)

def test_it(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert world(dp=2).run(run) == [1, 2]
"""
    )
    session.runpytest_subprocess("--cov").assert_outcomes(passed=1)
    assert RUN_BY_BOTH | DEFINITIONS == _lines(session.path)
    assert not _measured(session.path).lines(str(session.path / "pkg" / "other.py"))


def test_what_cannot_be_measured_is_said(session: pytest.Pytester) -> None:
    """The test passes all the same, with a warning."""
    session.makepyfile(
        test_it=TESTS.replace(
            "def test_it(world):",
            "def test_it(world, monkeypatch):\n    import coverage.config\n"
            "    monkeypatch.setattr(coverage.Coverage.current().config, 'plugins', ['no.such'])",
        )
    )
    result = session.runpytest_subprocess("--cov=pkg", "-W", "default")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*code in ranks is not measured: ModuleNotFoundError: *"])


def test_without_coverage_nothing_of_it_is_imported(session: pytest.Pytester) -> None:
    """Neither in the pytest process nor in a rank, so that it costs nothing."""
    session.makepyfile(
        test_it="""
import sys

def loaded(rank):
    import sys
    return "coverage" in sys.modules

def test_it(world):
    assert world(dp=2).run(loaded) == [False, False]
    assert "coverage" not in sys.modules
"""
    )
    session.runpytest_subprocess("-p", "no:cov", "-p", "no:pytest_cov").assert_outcomes(passed=1)
