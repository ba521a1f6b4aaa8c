"""What coverage.py measures in ranks, brought together with what it measures in this process."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from harness import _settings


def wanted() -> bytes:
    """What ranks need to measure as this process does; empty where coverage.py does not run."""
    running = _running()
    if running is None:
        return b""
    config = copy.copy(running.config)
    # What belongs to the whole process, or to the file of data, which a rank has not.
    for name, value in (
        ("parallel", False),
        ("sigterm", False),
        ("patch", []),
        ("debug", []),
        ("dynamic_context", None),
        ("concurrency", [c for c in config.concurrency or () if c != "multiprocessing"]),
        ("context", _context(running) or config.context),
    ):
        if hasattr(config, name):
            setattr(config, name, value)
    folder = sys.modules["coverage"].files.relative_directory()
    return pickle.dumps((config, folder or os.getcwd()))


def is_running() -> bool:
    """Whether coverage.py measures this process."""
    return _running() is not None


class Gathered:
    """What ranks have measured: by context and file, each line once, until it is merged."""

    def __init__(self) -> None:
        self._into: Any = None
        self._lines: dict[str, dict[str, set[Any]]] = {}
        self._tracers: dict[str, str] = {}
        self._imported: set[str] = set()
        self._told = False

    def add(self, measured: Iterable[tuple[Any, ...]]) -> None:
        """Take in what the ranks of one run have sent."""
        self._into = _running() or self._into
        for context, files, imported, trouble in measured:
            if trouble and not self._told:
                self._told = True
                warnings.warn(f"code in ranks is not measured: {trouble}", stacklevel=5)
            self._imported.update(imported)
            kept = self._lines.setdefault(context, {})
            for file, (tracer, lines) in files.items():
                kept.setdefault(file, set()).update(lines)
                if tracer:
                    self._tracers[file] = tracer

    def merge(self) -> None:
        """Give it all to the measurement of this process, before that is saved."""
        into, lines, tracers = self._into, self._lines, self._tracers
        imported = self._imported
        self.__init__()  # type: ignore[misc]
        if into is None or not any(lines.values()):
            return
        unmatched = getattr(getattr(into, "_inorout", None), "source_pkgs_unmatched", [])
        unmatched[:] = [name for name in unmatched if name not in imported]
        into._warn_no_data = False  # which it would look for before it has what is added here
        data = into.get_data()
        add = data.add_arcs if into.config.branch else data.add_lines
        before = _context(into)
        for context, files in lines.items():
            if context or before:
                data.set_context(context or None)
            add({file: list(each) for file, each in files.items()})
            data.add_file_tracers({file: name for file, name in tracers.items() if file in files})
        if before or any(lines):
            data.set_context(before)


def keep(measured: Sequence[tuple[Any, ...]]) -> None:
    """Take in what the ranks of one run have sent, at the end of the session or, without, now."""
    into = _settings.current.on_measured
    if into is not None:
        into(measured)
        return
    here = Gathered()
    here.add(measured)
    here.merge()


def _running() -> Any:
    """The measurement of this process; nothing is imported to find out that there is none."""
    module: Any = sys.modules.get("coverage")
    return None if module is None else module.Coverage.current()


def _context(running: Any) -> str | None:
    """What lines are put down to now: with pytest-cov's ``--cov-context`` the running test."""
    context: str | None = getattr(getattr(running, "_data", None), "_current_context", None)
    return context
