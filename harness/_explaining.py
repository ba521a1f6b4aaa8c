"""When a second run is made, and what it has to repeat. The second run itself is `harness._rerun`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness import _deadline, _settings
from harness.launch._rank import CURRENT_TEST
from harness.launch._spec import WorldSpec
from harness.report import Run

if TYPE_CHECKING:
    from harness.explain import Explanation

MOST_AGAIN = 32
MOST_BYTES_AGAIN = 16 << 20
"""A second run repeats so many functions at most, of so many bytes together, arguments included."""


class Explaining:
    """Remembers what has run on a world, for a second run has to do all of it again.

    ``mode`` is the argument ``explain`` of the world; where nothing is recorded, nothing is explained.
    Raises ValueError for another mode.
    """

    def __init__(self, mode: str | None, *, recorded: bool) -> None:
        if mode is not None and mode not in _settings.EXPLAIN:
            raise ValueError(f"explain: one of {', '.join(_settings.EXPLAIN)}, not {mode!r}")
        self._mode = mode if recorded else "never"
        self._payloads: list[bytes] = []

    def remember(self, payload: bytes) -> None:
        """A function is to run."""
        self._payloads.append(payload)
        if len(self._payloads) > MOST_AGAIN or sum(map(len, self._payloads)) > MOST_BYTES_AGAIN:
            del self._payloads[:-1]

    def forget(self) -> None:
        """Another test begins; what it finds does not come from what has run before."""
        self._payloads.clear()

    def explanation(
        self, run: Run, spec: Callable[[float], WorldSpec], buffered_sends: bool
    ) -> Explanation | None:
        """Where the ranks took different ways; None where no second run is made.

        ``spec`` makes the specification for a first run of so many seconds.
        """
        settings = _settings.current
        mode = self._mode or settings.explain
        if mode == "never" or settings.console is not None:
            return None  # a second run would open the debugger again
        from harness._rerun import Again, explained, failed

        took = run.ended - run.began
        test = os.environ.get(CURRENT_TEST, "")
        try:
            again = Again(
                spec(took),  # its bound is what is left
                settings.preload,
                self._payloads,
                buffered_sends,
                test,
                took,
                _deadline.remaining(),
            )
            return explained(run, again, mode)
        except Exception as error:
            # The verdict on the first run stands, whatever becomes of this one.
            return failed(error)
