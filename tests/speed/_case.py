"""What a case is handed: how many rounds, where progress goes, and the peers it opens."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from tests.speed._bench import Bench
from tests.speed._measure import settle


@dataclass
class Progress:
    """One line on a terminal, written over; else one line for each step."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    case: str = ""

    def step(self, what: str) -> None:
        """Say what is measured now."""
        text = f"{time.monotonic() - self.started:5.0f} s  {self.case}: {what}"
        if self.stream.isatty():
            print(f"\r{text:<78.78}", end="", file=self.stream, flush=True)
        else:
            print(text, file=self.stream, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self.stream.isatty():
            print(file=self.stream, flush=True)


@dataclass(frozen=True)
class Run:
    """One run of the bench; ``asked`` are the rounds of the command line."""

    progress: Progress
    asked: int | None = None

    def rounds(self, usual: int) -> int:
        """The rounds of what is cheap."""
        return usual if self.asked is None else self.asked

    def few(self, usual: int) -> int:
        """The rounds of what takes seconds: asking for more does not multiply those."""
        return usual if self.asked is None else max(1, min(usual, self.asked))

    @contextlib.contextmanager
    def benches(self, *peers: str) -> Iterator[list[Bench]]:
        """The peers, open, each in a process of its own, once all is quiet."""
        with contextlib.ExitStack() as stack:
            opened = []
            for peer in peers:
                self.progress.step(f"opening {peer}")
                opened.append(stack.enter_context(Bench(peer)))
            settle(os.getpid())
            yield opened
