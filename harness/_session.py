"""What the plugin keeps for a pytest session: the settings, the running test and its phase."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from harness import _options, _settings

if TYPE_CHECKING:
    from harness._budget import Budget, BudgetFile
    from harness._pool import Pool
    from harness._supervisor import Outcome
    from harness._worlds import WorldFactory

FIXTURES = frozenset({"world", "class_world", "module_world", "package_world", "session_world"})

_KEY = pytest.StashKey["_Session"]()

_BUDGET = "collectives_budget"
_ASKED = "collectives/asked_for_worlds"


class _Session:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.item: pytest.Item | None = None
        self.phase = "call"
        self.started = 0.0
        self.installation: Any = None
        self.modules: dict[str, ModuleType] = {}
        self.left: list[str] = []
        self.budget_file: BudgetFile | None = None
        values = _options.read(config)
        self.ranks: int = values["world_ranks"]
        self.reuse: str = values["world_reuse"]
        self.preload = ("pytest", *values["world_preload"])
        self.before = _settings.use(
            _settings.Settings(
                timeout=values["world_timeout"],
                preload=self.preload,
                env=values["world_env"],
                stub_modules=values["world_stub_modules"],
                seed=values["world_seed"],
                log_level=_log_level(config),
                verbosity=max(0, config.get_verbosity()),
                bound=self.bound,
                shipped=self.shipped,
                on_output=self.on_output,
                pool=_pool(self.reuse),
                on_dirty=self.left.append,
                budget=_shared_budget(config),
            )
        )
        if values["world_mpu"] == "everywhere":
            from harness import mpu

            self.installation = mpu.install(extra_modules=values["world_stub_modules"])

    def bound(self) -> tuple[float, float] | None:
        """Seconds that a pytest-timeout leaves to the running test, and its length."""
        if self.item is None or not self.config.pluginmanager.hasplugin("timeout"):
            return None
        whole = _test_timeout(self.item)
        if whole is None:
            return None
        return whole - (time.monotonic() - self.started), whole

    def shipped(self) -> list[ModuleType]:
        """The modules of test code: those collected, and the conftest files."""
        modules = dict(self.modules)
        for plugin in self.config.pluginmanager.get_plugins():
            if isinstance(plugin, ModuleType) and _is_conftest(plugin):
                modules[plugin.__name__] = plugin
        return [m for name, m in modules.items() if sys.modules.get(name) is m]

    def on_output(self, outcome: Outcome) -> None:
        """Show what ranks printed: live with ``-s``, else under the test if it fails."""
        live = self.config.getoption("capture") == "no"
        for rank, streams in enumerate(outcome.output):
            for name, text in streams.items():
                if not text:
                    continue
                if live:
                    for line in text.splitlines():
                        print(f"[rank {rank}] {line}")
                elif self.item is not None:
                    self.item.add_report_section(self.phase, f"{name} of rank {rank}", text)


def configure(config: pytest.Config) -> None:
    """Put the options in force."""
    config.stash[_KEY] = _Session(config)


def unconfigure(config: pytest.Config) -> None:
    """Put back what was before; end the servers, if any were started."""
    session = config.stash.get(_KEY, None)
    if session is None:
        return
    settings = _settings.current
    if settings.pool is not None:
        settings.pool.close()
    if settings.budget is not None:
        settings.budget.close()
    if session.budget_file is not None:
        session.budget_file.close()
    if session.installation is not None:
        session.installation.restore()
    _settings.use(session.before)
    launch = sys.modules.get("harness.launch._forkserver")
    if launch is not None and _settings.current.preload != session.preload:
        launch.close_servers(of=session.preload)


def begins(config: pytest.Config) -> None:
    """Start the server now if the last session asked for worlds: it imports while tests are collected.

    Not with modules to preload, which may be importable only once tests are collected.
    """
    state = config.stash[_KEY]
    distributes = config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput")
    cache = getattr(config, "cache", None)
    if len(state.preload) > 1 or distributes or config.getoption("collectonly") or cache is None:
        return
    if cache.get(_ASKED, False) is True:
        from harness.launch._forkserver import server_for

        server_for(state.preload).start()


def collected(session: pytest.Session) -> None:
    """Note the test modules; start the server if any test asks for a world."""
    state = session.config.stash[_KEY]
    wanted = False
    for item in session.items:
        module = getattr(item, "module", None)
        if isinstance(module, ModuleType):
            state.modules[module.__name__] = module
        wanted = wanted or _asks_for_worlds(item)
    cache = getattr(session.config, "cache", None)
    if session.items and cache is not None and cache.get(_ASKED, None) is not wanted:
        cache.set(_ASKED, wanted)
    if wanted and not session.config.getoption("collectonly"):
        from harness.launch._forkserver import server_for

        server_for(_settings.current.preload).start()


def _asks_for_worlds(item: pytest.Item) -> bool:
    """Whether the test has one of the fixtures, or is one of a suite's laws."""
    if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec is not None else ()
    return any(type(v).__module__.startswith("harness.suites") for v in values)


def worker_starts(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Give a worker of pytest-xdist its share in the ranks that all may have up together."""
    session = config.stash[_KEY]
    if session.budget_file is None:
        from harness._budget import BudgetFile

        session.budget_file = BudgetFile()
    workerinput[_BUDGET] = (session.budget_file.name, session.ranks)


def ended(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A test is over: with it goes what was kept up for its class or module."""
    pool = _settings.current.pool
    scopes: dict[str, type[pytest.Class | pytest.Module]] = {
        "class": pytest.Class,
        "module": pytest.Module,
    }
    scope = scopes.get(item.config.stash[_KEY].reuse)
    if pool is None or scope is None:
        return
    of = item.getparent(scope)
    if of is None or nextitem is None or nextitem.getparent(scope) is not of:
        pool.close()


def note(item: pytest.Item, report: pytest.TestReport) -> None:
    """Send along with the report what was left in worlds that are therefore not used again."""
    left = item.config.stash[_KEY].left
    if left:
        report.worlds_thrown_away = list(left)  # type: ignore[attr-defined]
        left.clear()


def summary(terminal: pytest.TerminalReporter) -> None:
    """List the worlds that could not be used again, and why, from all workers."""
    lines = [
        f"{report.nodeid}: {text}"
        for reports in terminal.stats.values()
        for report in reports
        for text in getattr(report, "worlds_thrown_away", ())
    ]
    if lines:
        terminal.write_sep("=", "worlds that were not used again")
        for line in lines:
            terminal.write_line(line)


@contextlib.contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """``item`` is the running test."""
    session = item.config.stash[_KEY]
    outer = session.item, session.started
    session.item, session.started = item, time.monotonic()
    try:
        yield
    finally:
        session.item, session.started = outer


@contextlib.contextmanager
def phase(item: pytest.Item, name: str) -> Iterator[None]:
    """The running test is in its setup, call or teardown."""
    session = item.config.stash[_KEY]
    session.phase = name
    yield


@contextlib.contextmanager
def factory(*, shared: bool) -> Iterator[WorldFactory]:
    """A maker of worlds, closed at the end."""
    from harness._worlds import WorldFactory

    with WorldFactory(shared=shared) as make:
        yield make


def _pool(reuse: str) -> Pool | None:
    if reuse == "test":
        return None
    from harness._pool import Pool

    return Pool()


def _shared_budget(config: pytest.Config) -> Budget | None:
    """The budget that the controller of pytest-xdist hands out, in a worker on its machine."""
    given = getattr(config, "workerinput", {}).get(_BUDGET)
    if given is None:
        return None
    from harness._budget import Budget

    try:
        return Budget(*given)
    except OSError:
        return None


def _is_conftest(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and os.path.basename(file) == "conftest.py"


def _log_level(config: pytest.Config) -> int | None:
    import logging

    text = config.getoption("log_level", None) or config.getini("log_level")
    if not text:
        return None
    level = logging.getLevelName(str(text).upper())
    return level if isinstance(level, int) else int(text) if str(text).isdigit() else None


def _test_timeout(item: pytest.Item) -> float | None:
    """The pytest-timeout of a test: its marker, else the option, the variable, the ini file."""
    marker = item.get_closest_marker("timeout")
    candidates: list[Any] = []
    if marker is not None:
        candidates.append(marker.args[0] if marker.args else marker.kwargs.get("timeout"))
    candidates.append(item.config.getoption("timeout", None))
    candidates.append(os.environ.get("PYTEST_TIMEOUT"))
    with contextlib.suppress(ValueError, KeyError):
        candidates.append(item.config.getini("timeout"))
    for value in candidates:
        if value is not None and value != "":
            try:
                seconds = float(value)
            except (TypeError, ValueError):
                continue
            return seconds if seconds > 0 else None
    return None
