"""Two ranks in one process: a program is followed as each of them, one after another."""

from __future__ import annotations

import contextlib
import inspect
import mmap
import tempfile
from collections.abc import Callable
from pathlib import Path as File
from typing import Any

from harness.explain._follower import Follower
from harness.explain._parting import Parting, parting
from harness.explain._paths import Contexts, Mark, Path
from harness.explain._plan import _captures
from harness.explain._source import functions_of
from harness.explain._trace import TracePlan, read
from harness.explain._tracer import watching

Program = Callable[[int], Any]

EVENTS = 8192


class Stop(BaseException):
    """The rank goes no further: it waits in a call for ever."""


class Rank:
    """Who runs; what calls it makes."""

    def __init__(self, follower: Follower, waits_in: str, stop: int) -> None:
        self._follower = follower
        self._stop = stop
        self._waits_in = waits_in
        self.calls: list[str] = []

    def call(self, name: str) -> None:
        """Begin a collective."""
        self._follower.called(len(self.calls))
        self.calls.append(name)
        if name == self._waits_in or len(self.calls) == self._stop + 1:
            # As if it were killed here: nothing of its way out is seen.
            self._follower.full = True
            raise Stop


current: list[Rank] = []


def call(name: str = "it") -> bool:
    """A collective, for programs."""
    current[-1].call(name)
    return True


def lost(name: str, fails: bool) -> None:
    """A collective that may fail for want of a partner."""
    current[-1].call(name)
    if fails:
        raise RuntimeError("Connection closed by peer")


def follow(
    program: Program, rank: int, contexts: Contexts, waits_in: str = "", stop: int = -1
) -> tuple[Path, list[str]]:
    """The way of one rank, and the names of its calls."""
    file = inspect.getsourcefile(program)
    assert file is not None
    functions = {(f.file, f.name): _captures(f, set()) for f in functions_of(file)}
    with tempfile.NamedTemporaryFile() as shared:
        plan = TracePlan(shared.name, EVENTS, 1, functions)
        shared.truncate(plan.size)
        follower = Follower(plan, 0)
        current.append(Rank(follower, waits_in, stop))
        try:
            with contextlib.suppress(Stop, Exception), watching(follower):
                program(rank)
        finally:
            made = current.pop()
        with mmap.mmap(shared.fileno(), plan.size) as memory:
            return Path(rank, read(memory, 0, EVENTS), contexts), made.calls


def part(program: Program, name: str = "it", stop: int = -1) -> tuple[Parting | None, Path, Path]:
    """Where rank 1 left the way on which rank 0 came to its call of that name.

    With ``stop`` rank 1 is held up in its call of that number.
    """
    contexts = Contexts()
    goer, calls = follow(program, 0, contexts, waits_in=name)
    other, _ = follow(program, 1, contexts, stop=stop)
    return parting(goer, _mark(goer, calls.index(name)), other), goer, other


def _mark(path: Path, number: int) -> Mark:
    return path.marks[number]


def marked(program: Program) -> int:
    """The line of the program's file that ends in ``# HERE``, within the program's own lines."""
    lines, first = inspect.getsourcelines(program)
    found = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# HERE")]
    assert len(found) == 1, f"{program.__name__}: one line is marked"
    return found[0]


def line_of(found: Parting, path: Path) -> tuple[str, int]:
    """The file's name and the line of a parting."""
    visit = path.visits[found.context]
    return File(visit.file).name, visit.steps[found.point].line
