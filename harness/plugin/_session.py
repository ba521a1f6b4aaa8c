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

from harness import _coverage, _deadline, _settings
from harness.plugin import _ci, _display, _options, _pages

if TYPE_CHECKING:
    from harness._budget import Budget, BudgetFile
    from harness._debugging import Console
    from harness._pool import Pool
    from harness._worlds import WorldFactory
    from harness.supervisor._outcome import Outcome
    from harness.verdict import Finding

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
        self.suspected: list[Finding] = []
        self.budget_file: BudgetFile | None = None
        values = _options.read(config)
        self.pages = _pages.configured(config, values["world_report"])
        self.console = _console(config, values["world_pdb"])
        self.gathered = _coverage.Gathered()
        self.ranks: int = values["world_ranks"]
        self.reuse: str = values["world_reuse"]
        measured = ("coverage",) if _is_measured(config) else ()
        self.preloads = bool(values["world_preload"])
        self.preload = ("pytest", *measured, *values["world_preload"])
        self.before = _settings.use(
            _settings.Settings(
                timeout=values["world_timeout"],
                preload=self.preload,
                env=values["world_env"],
                stub_modules=values["world_stub_modules"],
                seed=values["world_seed"],
                explain=values["world_explain"],
                log_level=_log_level(config),
                verbosity=max(0, config.get_verbosity()),
                detail=config.get_verbosity(),
                bound=self.bound,
                shipped=self.shipped,
                on_output=self.on_output,
                pool=_pool(self.reuse),
                on_dirty=self.left.append,
                **_kept(self.pages),
                budget=_shared_budget(config),
                console=self.console,
                on_measured=self.gathered.add,
            )
        )
        if values["world_mpu"] == "everywhere":
            from harness import mpu

            self.installation = mpu.install(extra_modules=values["world_stub_modules"])

    def bound(self) -> tuple[float, float] | None:
        """Seconds that a pytest-timeout leaves to the running test, and its length."""
        if self.item is None or not self.config.pluginmanager.hasplugin("timeout"):
            return None
        whole = _deadline.of_test(self.item)
        if whole is None or (self.console is not None and self.console.opened_at > self.started):
            return None  # pytest-timeout watches no test in which a debugger was open
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
        if not outcome.errors:
            self.suspected += outcome.findings
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
    if state.preloads or distributes or config.getoption("collectonly") or cache is None:
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


def looped(config: pytest.Config) -> None:
    """All tests are over: what was measured in ranks joins what was measured here."""
    config.stash[_KEY].gathered.merge()


def worker_starts(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Give a worker of pytest-xdist its share in the ranks that all may have up together."""
    session = config.stash[_KEY]
    _pages.worker_starts(session.pages, workerinput)
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


def reporting(call: pytest.CallInfo[None]) -> None:
    """A report on a phase of a test is about to be made."""
    if call.excinfo is not None:
        _display.shorten(call.excinfo.value)


def note(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Send along with the report what worlds found, and what was left in those not used again."""
    session = item.config.stash[_KEY]
    error = call.excinfo.value if call.excinfo is not None else None
    suspected, session.suspected = session.suspected, []
    _display.note(report, error)
    _ci.note(item, report, error, suspected)
    if session.pages is not None:
        session.pages.note(error, report)
    left = session.left
    if left:
        report.worlds_thrown_away = list(left)  # type: ignore[attr-defined]
        left.clear()


def summary(terminal: pytest.TerminalReporter) -> None:
    """List the worlds that could not be used again, and why, from all workers; then tell CI."""
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
    _pages.summary(terminal.config.stash[_KEY].pages, terminal)
    _ci.summary(terminal)


@contextlib.contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """``item`` is the running test."""
    session = item.config.stash[_KEY]
    outer = session.item, session.started
    session.item, session.started = item, time.monotonic()
    if session.pages is not None:
        session.pages.begin()
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


def _console(config: pytest.Config, rank: int | None) -> Console | None:
    if rank is None:
        return None
    from harness import _debugging

    return _debugging.console(config, rank)


def _is_measured(config: pytest.Config) -> bool:
    """Whether coverage.py runs, or will; in a worker pytest-cov starts it later."""
    return config.pluginmanager.hasplugin("_cov") or _coverage.is_running()


def _kept(pages: _pages.Pages | None) -> dict[str, Any]:
    """The settings that pages need: every run, with many records."""
    if pages is None:
        return {}
    return {"on_run": pages.on_run, "records_kept": _pages.RECORDS_KEPT}


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
