"""Measuring which lines run in a rank, with coverage.py, as the pytest process does."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Mapping
from typing import Any

MEASURED = "measured"

_STARTS = ("COV_CORE_", "COVERAGE_PROCESS_")
"""Variables at which coverage.py and pytest-cov start by themselves in a new interpreter."""


def unmeasured(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of an interpreter that is not to be measured from its start."""
    return {n: value for n, value in environment.items() if not n.startswith(_STARTS)}


class Measurement:
    """The lines of one function after another.

    ``wanted``, made by `harness._coverage`, is a pickled configuration of coverage.py and the folder
    that its relative names are meant from.
    """

    def __init__(self) -> None:
        self._wanted = b""
        self._coverage: Any = None
        self._context = ""
        self._sent: dict[str, set[Any]] = {}
        self._trouble = ""

    def start(self, wanted: bytes) -> None:
        """Measure from now on."""
        try:
            if wanted != self._wanted:
                self._make(wanted)
            else:
                self._coverage.start()
        except Exception as error:
            self._trouble = f"{type(error).__name__}: {error}"

    def _make(self, wanted: bytes) -> None:
        import coverage

        class Quiet(coverage.Coverage):
            """Leaves warnings, and the search for files that never ran, to the pytest process."""

            def _warn(self, *_: Any, **__: Any) -> None:
                pass

            def _post_save_work(self) -> None:
                pass

        config, folder = pickle.loads(wanted)
        made = Quiet(data_file=None, config_file=False)
        made.config = config
        here = os.getcwd()
        with contextlib.suppress(OSError):
            os.chdir(folder)
        try:
            made.start()
        finally:
            os.chdir(here)
        self._wanted, self._coverage, self._context = wanted, made, config.context or ""
        self._sent = {}

    def stop(self) -> tuple[Any, ...]:
        """Measure no more; what was not told yet.

        The context; by file the plugin that traces it, and its lines (or its jumps from line to
        line, where branches are measured); the packages of ``source`` that were imported; what went
        wrong.
        """
        if self._coverage is None or self._trouble:
            return self._context, {}, (), self._trouble
        try:
            self._coverage.stop()
            return self._context, self._new(), self._imported(), ""
        except Exception as error:
            return self._context, {}, (), f"{type(error).__name__}: {error}"

    def _new(self) -> dict[str, tuple[str, list[Any]]]:
        data = self._coverage.get_data()
        found = data.arcs if data.has_arcs() else data.lines
        new = {}
        for file in data.measured_files():
            sent = self._sent.get(file)
            lines = set(found(file) or ()) - (sent or set())
            if lines or sent is None:
                new[file] = data.file_tracer(file) or "", list(lines)
                self._sent[file] = lines | (sent or set())
        return new

    def _imported(self) -> tuple[str, ...]:
        in_or_out = getattr(self._coverage, "_inorout", None)
        unmatched = getattr(in_or_out, "source_pkgs_unmatched", ())
        return tuple(set(getattr(in_or_out, "source_pkgs", ())) - set(unmatched))
