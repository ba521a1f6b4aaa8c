"""What a soak found, as a table and as data: what was judged wrong, what leaked, what grew."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.soak._leaks import more
from tests.soak._plan import KINDS
from tests.soak._session import Raw

PER_WORLD = 2.0
"""KiB that a process may grow by for each world.

pytest itself keeps 0.9 of each test (measured with 3,000 empty ones); a world that was not let go,
with its buffers, its history and the stack of its thread, would be some hundred.
"""

SLACK = 2048
"""KiB that say nothing, whatever the number of worlds: how arenas of malloc come and go."""

LEAST_WORLDS = 250
"""Between two medians; in a shorter session what is used for the first time weighs more."""


@dataclass(frozen=True)
class Growth:
    """The memory of a process: medians of the second and the last quarter of the session."""

    early: float
    late: float
    worlds: float
    """How many worlds lie between the two."""

    @property
    def per_world(self) -> float:
        """KiB a world."""
        return (self.late - self.early) / self.worlds if self.worlds else 0.0

    @property
    def too_much(self) -> bool:
        """Whether it is more than the bound and more than what says nothing."""
        if self.worlds < LEAST_WORLDS:
            return False
        return self.late - self.early > max(SLACK, PER_WORLD * self.worlds)


@dataclass(frozen=True)
class Report:
    """The outcome of a soak."""

    asked: int
    seed: int
    raw: Raw

    @property
    def kinds(self) -> dict[str, dict[str, float]]:
        """Per kind: how many worlds, how many judged right, seconds a world."""
        found: dict[str, dict[str, float]] = {}
        for kind in KINDS:
            ended = [each for each in self.raw.worlds if each["kind"] == kind]
            if ended:
                found[kind] = {
                    "worlds": len(ended),
                    "right": sum(not each["wrong"] for each in ended),
                    "seconds": round(sum(each["seconds"] for each in ended) / len(ended), 3),
                }
        return found

    @property
    def wrong(self) -> list[str]:
        """One entry for each world that did not end as it had to."""
        found = [f"{each['id']}: {each['wrong']}" for each in self.raw.worlds if each["wrong"]]
        if len(self.raw.worlds) < self.asked or self.raw.code not in (0, 1):
            found.append(
                f"pytest ended with code {self.raw.code} after {len(self.raw.worlds)} worlds:\n"
                f"{self.raw.log}"
            )
        return found

    @property
    def leaks(self) -> dict[str, list[str]]:
        """What is there at the last sample and was not at the first, and what outlived pytest."""
        samples = self.raw.samples
        found = more(samples[0], samples[-1]) if samples else {}
        if not self.raw.own_disk:
            found.pop("shared", None)  # other processes of the machine have theirs there
        found["processes after the end"] = self.raw.processes
        found["temp after the end"] = self.raw.temp
        return {name: what for name, what in found.items() if what}

    def growth(self, name: str) -> Growth:
        """How the memory of pytest (``memory``) or of the server (``server_memory``) grew."""
        samples = self.raw.samples[1:]
        n = len(samples)
        early, late = samples[n // 4 : n // 2], samples[3 * n // 4 :]
        if not early or not late:
            return Growth(0.0, 0.0, 0.0)
        apart = median(s["worlds"] for s in late) - median(s["worlds"] for s in early)
        return Growth(median(s[name] for s in early), median(s[name] for s in late), apart)

    @property
    def grown(self) -> list[str]:
        """The processes that grew by more than the bound."""
        names = {"memory": "pytest", "server_memory": "server"}
        return [who for name, who in names.items() if self.growth(name).too_much]

    @property
    def good(self) -> bool:
        """Whether nothing was judged wrong, leaked or grew."""
        return not (self.wrong or self.leaks or self.grown)

    def as_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "worlds": len(self.raw.worlds),
            "seed": self.seed,
            "seconds": round(self.raw.seconds, 1),
            "kinds": self.kinds,
            "wrong": self.wrong,
            "leaks": self.leaks,
            "memory": {
                name: {
                    "early_kib": growth.early,
                    "late_kib": growth.late,
                    "kib_per_world": round(growth.per_world, 3),
                    "too_much": growth.too_much,
                }
                for name, growth in (
                    ("pytest", self.growth("memory")),
                    ("server", self.growth("server_memory")),
                )
            },
            "samples": self.raw.samples,
            "own_disk": self.raw.own_disk,
        }


def table(report: Report) -> str:
    """The summary for a reader."""
    raw = report.raw
    count = len(raw.worlds)
    lines = [
        f"{count} worlds, seed {report.seed}, {raw.seconds:.0f} s, "
        f"{1000 * raw.seconds / max(count, 1):.0f} ms a world",
        f"{'kind':<16}{'worlds':>8}{'right':>8}{'ms':>8}",
    ]
    for kind, row in report.kinds.items():
        lines.append(f"{kind:<16}{row['worlds']:>8}{row['right']:>8}{1000 * row['seconds']:>8.0f}")
    right = sum(int(row["right"]) for row in report.kinds.values())
    lines.append(f"{'all':<16}{count:>8}{right:>8}")
    if not raw.own_disk:
        lines.append("no file system of its own could be mounted: a full disk was not tried")
    lines += [f"leak: {name}: {', '.join(what[:8])}" for name, what in report.leaks.items()]
    lines.append(f"leaks: {sum(map(len, report.leaks.values()))}")
    for who, name in (("pytest", "memory"), ("server", "server_memory")):
        growth = report.growth(name)
        short = growth.worlds < LEAST_WORLDS
        verdict = "too few to tell" if short else "too much" if growth.too_much else "flat"
        lines.append(
            f"memory of {who}: {growth.early / 1024:.1f} → {growth.late / 1024:.1f} MiB, "
            f"{growth.per_world:.2f} KiB a world: {verdict}"
        )
    return "\n".join(lines)
