"""What a world takes where its arguments say nothing: set by the plugin, or these defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness._budget import Budget
    from harness._debugging import Console
    from harness._pool import Pool
    from harness.report import Run
    from harness.supervisor._outcome import Outcome

DEFAULT_TIMEOUT = 60.0

EXPLAIN = ("auto", "always", "never")


@dataclass
class Settings:
    """The options of the session.

    ``timeout`` is the world deadline in seconds. ``bound`` tells how many seconds a pytest-timeout
    in force leaves to the running test, and its whole length; None where there is none.
    ``shipped`` are the modules of test code: functions from them travel by value.
    ``on_output`` takes what the ranks of a run printed, to be shown where the user looks for it.
    ``explain`` says when a fault is looked at in a second run: ``"auto"``, ``"always"``, ``"never"``.
    ``on_run`` takes every run once it is over, well or not, with its last ``records_kept`` records of
    each rank.
    ``detail`` says how much reports tell: the verdict alone below 0, all that there is from 1 on.
    The text of an error is shortened only where it is shown.
    ``pool`` keeps worlds up for reuse; None where each has its own end. ``on_dirty`` takes what was
    left in a world that is therefore not used again. ``budget`` bounds the ranks that are up at a
    time over several processes. ``console`` is the terminal for a debugger on one rank.
    ``on_measured`` takes what coverage.py has measured in the ranks of a run.
    """

    timeout: float = DEFAULT_TIMEOUT
    preload: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    stub_modules: tuple[str, ...] = ()
    seed: int = 0
    log_level: int | None = None
    verbosity: int = 0
    detail: int = 0
    bound: Callable[[], tuple[float, float] | None] = lambda: None
    shipped: Callable[[], list[ModuleType]] = list
    on_output: Callable[[Outcome], None] | None = None
    explain: str = "auto"
    on_run: Callable[[Run], None] | None = None
    records_kept: int = 512
    pool: Pool | None = None
    on_dirty: Callable[[str], None] | None = None
    budget: Budget | None = None
    console: Console | None = None
    on_measured: Callable[[Sequence[tuple[Any, ...]]], None] | None = None


current = Settings()
"""The settings in force in this process."""


def use(settings: Settings) -> Settings:
    """Put ``settings`` in force; returns those that were."""
    global current
    before, current = current, settings
    return before
