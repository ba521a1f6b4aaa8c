"""pytest's hooks and fixtures. They hold no logic, and importing them imports no torch."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from harness.plugin import _display, _options, _session

if TYPE_CHECKING:
    from harness._worlds import WorldFactory

pytest.register_assert_rewrite("harness.suites")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ``--world-…`` options and their ini forms."""
    _options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the options; what is wrong with them is said now."""
    _session.configure(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the server and with it every rank."""
    _session.unconfigure(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the server while tests are collected, where they will need it."""
    _session.begins(session.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the server, while nothing needs it yet."""
    _session.collected(session)


def pytest_report_header(config: pytest.Config) -> str | None:
    """One line where an option was changed."""
    return _options.header(config)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """What was measured in ranks is there before pytest-cov saves and reports."""
    try:
        return (yield)
    finally:
        _session.looped(session.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Know which test runs, and since when."""
    with _session.running(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """What ranks print belongs to the phase of the test."""
    with _session.phase(item, "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What ranks print belongs to the phase of the test."""
    with _session.phase(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """What ranks print belongs to the phase of the test; worlds end with their scope."""
    try:
        with _session.phase(item, "teardown"):
            return (yield)
    finally:
        _session.ended(item, nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what worlds found, and why some are not used again."""
    _session.reporting(call)
    report = yield
    _session.note(item, call, report)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Colour what worlds found, once all other reporters have had it."""
    _display.paint(session.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it at the end."""
    _session.summary(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of pytest-xdist starts."""
    _session.worker_starts(node.config, node.workerinput)


@pytest.fixture
def world() -> Iterator[WorldFactory]:
    """``world(dp, cp, …)`` starts a `harness.World`; the test's end closes it."""
    with _session.factory(shared=False) as make:
        yield make


def _shared(scope: Literal["class", "module", "package", "session"]) -> Any:
    @pytest.fixture(scope=scope)
    def fixture() -> Iterator[WorldFactory]:
        """As ``world``, for longer: worlds asked for with the same arguments are shared."""
        with _session.factory(shared=True) as make:
            yield make

    return fixture


class_world = _shared("class")
module_world = _shared("module")
package_world = _shared("package")
session_world = _shared("session")
