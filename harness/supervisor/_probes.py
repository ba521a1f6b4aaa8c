"""Asking ranks for their stacks: the proof of a wait inside C++, and the last words at a deadline.

A rank that waits in C++ (DDP's reducer in ``.backward()``) writes no record of it. It is taken to
be blocked there only when two looks, some time apart, find the same Python stack ending in torch (or
in the store through which ranks connect), the main thread asleep and the process' CPU time standing
still.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.record import Frame, NativeWait, Stack

FIRST = 0.04
APART = 0.06
SLOWEST = 2.0
IDLE_SHARE = 0.3

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
_TORCH = re.compile(r"[/\\]torch[/\\]")
_OURS = re.compile(r"[/\\]harness[/\\](?:launch|record|mpu|suites)[/\\]")
_STORE = re.compile(r"[/\\]harness[/\\]launch[/\\]_store\.py$")
_STANDARD = re.compile(r"[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages)|<frozen ")
_ANSWERING = re.compile(r"^  File .* in stacks_as_asked\n", re.MULTILINE)
"""The frame in which a rank that runs Python code answers."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer: the main thread's state, the process' CPU seconds, faulthandler's text."""

    state: str
    cpu: float
    text: str

    def frames(self) -> list[tuple[str, int, str]]:
        """The main thread's frames, innermost first; faulthandler prints that thread last."""
        frames: list[tuple[str, int, str]] = []
        for line in self.text.splitlines():
            if line.endswith("(most recent call first):"):
                frames = []
            match = _FRAME.match(line)
            if match:
                number = int(match["line"]) if match["line"].isdigit() else 0
                frames.append((match["file"], number, match["function"]))
        return frames

    def users(self) -> Stack:
        """The user's part of the main thread's stack."""
        return tuple(
            Frame(file, line, function)
            for file, line, function in self.frames()
            if not (_TORCH.search(file) or _OURS.search(file) or _STANDARD.search(file))
        )


class Probes:
    """Keeps the answers of one run, and when to ask again."""

    def __init__(self, ask: Callable[[list[int]], None]) -> None:
        self._ask = ask
        self.number = 0
        self.reset()

    def reset(self) -> None:
        """A new run: nothing is known."""
        self._latest: dict[int, Probe] = {}
        self._before: dict[int, tuple[float, Probe]] = {}
        self._proved: set[int] = set()
        self._waiting_for: set[int] = set()
        self._asked_at = 0.0
        self._pause = APART
        self._act = 0.0

    def asked(self, ranks: Sequence[int]) -> None:
        """A request has gone out."""
        self.number += 1
        self._waiting_for = set(ranks)
        self._asked_at = time.monotonic()

    def answered(self, answers: dict[int, Probe]) -> None:
        """The server has answered."""
        for rank, probe in answers.items():
            self._latest[rank] = replace(probe, text=_ANSWERING.sub("", probe.text))
        self._waiting_for = set()

    @property
    def complete(self) -> bool:
        """Whether nothing is outstanding."""
        return not self._waiting_for

    def next_time(self, last_act: float) -> float:
        """When `step` is next due."""
        return max(last_act + FIRST, self._asked_at + self._pause)

    def step(
        self, now: float, last_act: float, awaited: Callable[[], Sequence[int]]
    ) -> Iterator[NativeWait]:
        """Ask the ranks that others wait for, when all is quiet; yield what is proved."""
        if last_act != self._act:
            # Something moved: what was seen before proves nothing.
            self._act, self._pause = last_act, APART
            self._before.clear()
            self._proved.clear()
        if not self.complete or now < self.next_time(last_act):
            return
        ranks = [rank for rank in awaited() if rank not in self._proved]
        for rank in ranks:
            latest = self._latest.pop(rank, None)
            if latest is None:
                continue
            earlier = self._before.get(rank)
            if earlier is not None and _stands_still(earlier, (self._asked_at, latest)):
                self._proved.add(rank)
                yield NativeWait(rank, latest.users(), now)
            self._before[rank] = (self._asked_at, latest)
        remaining = [rank for rank in ranks if rank not in self._proved]
        if remaining:
            if len(self._before) == len(remaining) and self._asked_at > self._act:
                self._pause = min(self._pause * 1.3, SLOWEST)
            self._ask(remaining)
        else:
            self._asked_at = now

    def stacks(self) -> dict[int, Stack]:
        """The user's stack of each rank that answered."""
        return {rank: probe.users() for rank, probe in self._latest.items()}

    def texts(self) -> dict[int, str]:
        """What each rank that answered looked like, in full."""
        return {
            rank: "stopped by a signal (SIGSTOP); it cannot show a stack"
            if probe.state in ("T", "t")
            else probe.text
            for rank, probe in self._latest.items()
        }


def _stands_still(earlier: tuple[float, Probe], later: tuple[float, Probe]) -> bool:
    (then, first), (now, second) = earlier, later
    frames = _below_the_store(second.frames())
    return (
        now - then >= APART * 0.8
        and first.state == second.state == "S"
        and bool(frames)
        and frames == _below_the_store(first.frames())
        and bool(_TORCH.search(frames[0][0]))
        and second.cpu - first.cpu < IDLE_SHARE * (now - then)
    )


def _below_the_store(frames: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Without the loop in which a rank looks for a key, now on one line, now on another."""
    while frames and _STORE.search(frames[0][0]):
        frames = frames[1:]
    return frames
