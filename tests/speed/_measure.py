"""Figures: samples, their spread, and taking them in turns so that all meet the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.launch._processes import descendants

SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6}
"""Units of time, by how many go into a second; other units are taken as they are."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which ``percent`` of 100 lie, linear between neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Sample:
    """What was measured of one thing, in ``unit``."""

    raw: tuple[float, ...]
    unit: str

    @staticmethod
    def of(values: Sequence[float], unit: str = "ms") -> Sample:
        """A sample in ``unit`` of values that are seconds where the unit is one of time."""
        return Sample(tuple(v * SCALE.get(unit, 1.0) for v in values), unit)

    @property
    def median(self) -> float:
        """The middle value."""
        return percentile(self.raw, 50)

    def at(self, percent: float) -> float:
        """A percentile."""
        return percentile(self.raw, percent)


@dataclass(frozen=True)
class Target:
    """One line of the issue: a value that has to be at most, or at least, some number."""

    name: str
    value: float
    target: float
    unit: str
    better: Literal["lower", "higher"] = "lower"

    @property
    def met(self) -> bool:
        """Whether the value is on the right side of the number."""
        if self.better == "lower":
            return self.value <= self.target
        return self.value >= self.target


@dataclass(frozen=True)
class Measured:
    """What came of one case; ``notes`` say what a reader of the figures has to know."""

    figures: dict[str, Sample]
    targets: list[Target]
    notes: tuple[str, ...] = ()


def ratio(figures: Mapping[str, Sample], of: str, to: str) -> float:
    """How many times the median of ``to`` the median of ``of`` is."""
    above, below = figures[of], figures[to]
    assert above.unit == below.unit, (of, to)
    return above.median / below.median


def added(figures: Mapping[str, Sample], by: str, over: str) -> float:
    """The median of what ``by`` takes more than ``over``, each pair from one round."""
    pairs = zip(figures[by].raw, figures[over].raw, strict=True)
    return percentile([more - less for more, less in pairs], 50)


def in_turns(
    takers: Mapping[str, Callable[[], float | list[float]]],
    rounds: Mapping[str, int],
    step: Callable[[str], None],
) -> dict[str, list[float]]:
    """Take ``rounds[name]`` times of each, all in turns; who begins changes with each round.

    A turn gives one value, or several that were taken in a row. Those with few turns are spread
    evenly over the rounds. ``step`` is called before each round.
    """
    last = max(rounds.values())
    due = {
        name: {int((k + 0.5) * last / rounds[name]) for k in range(rounds[name])} for name in takers
    }
    values: dict[str, list[float]] = {name: [] for name in takers}
    names = list(takers)
    for number in range(last):
        step(f"round {number + 1}/{last}")
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if number in due[name]:
                taken = takers[name]()
                values[name] += taken if isinstance(taken, list) else [taken]
    return values


def settle(pid: int, *, still: float = 1.5, longest: float = 20.0) -> None:
    """Wait until the descendants of ``pid`` have used no CPU for ``still`` seconds.

    Servers go on importing when they have answered; nothing is measured beside that.
    """
    until = time.monotonic() + longest
    before, since = _cpu_ticks(pid), time.monotonic()
    while time.monotonic() < until and time.monotonic() < since + still:
        time.sleep(0.05)
        now = _cpu_ticks(pid)
        if now != before:
            before, since = now, time.monotonic()


def _cpu_ticks(pid: int) -> int:
    total = 0
    for each in descendants(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total
