"""The scores: any, class, located, false, conclusive, noise, time to verdict; by category."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.bugbench.program import Program
from tests.bugbench.running import Found, located, right_kind

COLUMNS = ("faulty", "correct", "any", "class", "located", "false", "conclusive", "noise")


@dataclass
class Run:
    """One seed of one program, faulty or corrected."""

    program: Program
    seed: int
    fixed: bool
    found: Found
    trouble: str = ""

    @property
    def faulty(self) -> bool:
        """Whether the run has a fault in it."""
        return not self.fixed and not self.program.is_trap

    @property
    def errors(self) -> int:
        """The failing findings."""
        return sum(f.level == "error" for f in self.found.findings)

    @property
    def any(self) -> bool:
        """Something was said."""
        return bool(self.found.findings)

    @property
    def right_class(self) -> bool:
        """The right kind was said."""
        return any(right_kind(e, f) for e in self.program.expect for f in self.found.findings)

    @property
    def located(self) -> bool:
        """The right kind with the right ranks and a marked line."""
        return any(
            located(self.program, e, f, self.found.text)
            for e in self.program.expect
            for f in self.found.findings
        )

    @property
    def false(self) -> bool:
        """A failing finding (or any trouble) on a correct run."""
        return not self.faulty and (self.errors > 0 or bool(self.trouble))

    @property
    def conclusive(self) -> bool:
        """The verdict came without using up the deadline (but for stragglers, which need it)."""
        expects_late = any("straggler" in e.kind for e in self.program.expect)
        return not self.found.used_deadline or (self.faulty and expects_late)

    @property
    def extra(self) -> int:
        """Findings beyond the one that is right."""
        right = any(right_kind(e, f) for e in self.program.expect for f in self.found.findings)
        return max(0, len(self.found.findings) - (1 if right else 0))


@dataclass
class Score:
    """The scores of some runs."""

    runs: list[Run] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The columns as data; fractions of the faulty runs, ``false`` a count."""
        faulty = [run for run in self.runs if run.faulty]
        correct = [run for run in self.runs if not run.faulty]
        times = sorted(run.found.to_verdict for run in faulty if run.errors)
        times_all = times or [0.0]

        def share(runs: Iterable[bool]) -> float:
            values = list(runs)
            return sum(values) / len(values) if values else 1.0

        return {
            "faulty": len(faulty),
            "correct": len(correct),
            "any": share(run.any for run in faulty),
            "class": share(run.right_class for run in faulty),
            "located": share(run.located for run in faulty),
            "false": sum(run.false for run in correct),
            "conclusive": share(run.conclusive for run in self.runs),
            "noise": sum(run.extra for run in faulty) / len(faulty) if faulty else 0.0,
            "p50": statistics.median(times_all),
            "p95": times_all[min(len(times_all) - 1, int(0.95 * len(times_all)))],
        }


def by_category(runs: list[Run]) -> dict[str, Score]:
    """The runs of each category."""
    scores: dict[str, Score] = {}
    for run in runs:
        scores.setdefault(run.program.category, Score()).runs.append(run)
    return dict(sorted(scores.items()))


def steadiness(runs: list[Run]) -> dict[str, str]:
    """For each faulty program: found with every seed, with some, or with none."""
    seen: dict[str, list[bool]] = {}
    for run in runs:
        if run.faulty:
            seen.setdefault(run.program.id, []).append(run.right_class)
    return {
        name: "systematic" if all(each) else "sometimes" if any(each) else "missed"
        for name, each in seen.items()
    }


def table(runs: list[Run]) -> str:
    """The score table as text."""
    lines = [
        f"{'':9}{'faulty':>7}{'correct':>8}{'any':>7}{'class':>7}{'located':>8}{'false':>6}"
        f"{'conclusive':>11}{'noise':>7}{'p50 ms':>8}{'p95 ms':>8}"
    ]
    rows = [(name, score.row()) for name, score in by_category(runs).items()]
    for name, row in [*rows, ("total", Score(runs).row())]:
        lines.append(
            f"{name:9}{row['faulty']:7}{row['correct']:8}{row['any']:7.1%}{row['class']:7.1%}"
            f"{row['located']:8.1%}{row['false']:6}{row['conclusive']:11.1%}{row['noise']:7.2f}"
            f"{row['p50'] * 1000:8.1f}{row['p95'] * 1000:8.1f}"
        )
    return "\n".join(lines)


def as_json(runs: list[Run]) -> dict[str, Any]:
    """All of it as data."""
    programs: dict[str, Any] = {}
    for run in runs:
        entry = programs.setdefault(
            run.program.id,
            {
                "title": run.program.title,
                "folder": run.program.folder,
                "expected": [vars(e) for e in run.program.expect],
                "runs": [],
            },
        )
        entry["runs"].append(
            {
                "seed": run.seed,
                "fixed": run.fixed or run.program.is_trap,
                "got": [
                    {
                        "kind": f.kind,
                        "detail": f.detail,
                        "level": f.level,
                        "ranks": list(f.ranks),
                        "summary": f.summary,
                    }
                    for f in run.found.findings
                ],
                "trouble": run.trouble,
                "seconds_to_verdict": run.found.to_verdict,
            }
        )
    return {
        "total": Score(runs).row(),
        "categories": {name: score.row() for name, score in by_category(runs).items()},
        "steadiness": steadiness(runs),
        "programs": programs,
    }
