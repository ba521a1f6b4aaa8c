"""The soak's own pytest plugin: makes the tests from the plan and notes how each ended."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.soak._plan import plan
from tests.soak._watch import Watch

WATCH = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What ``python -m tests.soak`` passes on."""
    group = parser.getgroup("soak")
    group.addoption("--soak-worlds", type=int, default=50)
    group.addoption("--soak-seed", type=int, default=0)
    group.addoption("--soak-disk", action="store_true")
    group.addoption("--soak-notes", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    """One watch for the session."""
    config.stash[WATCH] = Watch(config.getoption("soak_notes"), config.getoption("soak_worlds"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each world of the plan."""
    if "case" in metafunc.fixturenames:
        option = metafunc.config.getoption
        cases = plan(option("soak_worlds"), option("soak_seed"), disk=option("soak_disk"))
        metafunc.parametrize("case", cases, ids=lambda case: case.id)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A world is over when its test has been torn down."""
    item.config.stash[WATCH].begin()
    result = yield
    item.config.stash[WATCH].ended(item)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what failed in any phase of a test."""
    report = yield
    item.config.stash[WATCH].reported(report)
    return report
