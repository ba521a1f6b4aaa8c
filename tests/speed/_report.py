"""The figures as text, as JSON, and as the tables of docs/speed.md."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.speed._measure import Measured, Sample, Target

LOAD = os.getloadavg()[0]
"""How busy the machine was as this began: above some tenths, the figures are those of a busy one."""

BEGIN, END = "<!-- figures -->", "<!-- /figures -->"


def machine() -> dict[str, str | int | float]:
    """What the figures were taken on."""
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "pytest": version("pytest"),
        "cores": _cores(),
        "cpu": _cpu_model(),
        "platform": platform.platform(),
        "load_before": LOAD,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def as_json(cases: Mapping[str, Measured]) -> dict[str, Any]:
    """Everything, the single values too."""
    return {
        "machine": machine(),
        "targets": [
            {
                "name": t.name,
                "value": t.value,
                "target": t.target,
                "unit": t.unit,
                "better": t.better,
                "met": t.met,
            }
            for case in cases.values()
            for t in case.targets
        ],
        "figures": {
            name: {peer: _sample(sample) for peer, sample in case.figures.items()}
            for name, case in cases.items()
        },
        "notes": {name: list(case.notes) for name, case in cases.items()},
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "median": sample.median,
        "p10": sample.at(10),
        "p90": sample.at(90),
        "n": len(sample.raw),
        "unit": sample.unit,
        "raw": list(sample.raw),
    }


def number(value: float) -> str:
    """Three digits that count, and no exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _target_row(target: Target) -> tuple[str, ...]:
    sign = "≤" if target.better == "lower" else "≥"
    return (
        target.name,
        f"{number(target.value)} {target.unit}".strip(),
        f"{sign} {target.target:,g} {target.unit}".strip(),
        "yes" if target.met else "**no**",
    )


def _figure_rows(case: Measured) -> list[tuple[str, ...]]:
    return [
        (
            peer,
            f"{number(s.median)} {s.unit}",
            f"{number(s.at(10))} – {number(s.at(90))}",
            str(len(s.raw)),
        )
        for peer, s in case.figures.items()
    ]


TARGET_HEAD = ("target", "measured", "wanted", "met")
FIGURE_HEAD = ("", "median", "p10 – p90", "n")


def text(name: str, case: Measured) -> str:
    """One case for a terminal."""
    rows = _aligned([FIGURE_HEAD, *_figure_rows(case)])
    targets = _aligned([_target_row(t) for t in case.targets])
    return "\n".join([f"{name}", *rows, *targets, *case.notes, ""])


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def markdown(cases: Mapping[str, Measured]) -> str:
    """The tables, without the markers around them."""
    about = machine()
    parts = [
        f"Python {about['python']}, torch {about['torch']}, pytest {about['pytest']}; "
        f"{about['cores']} cores of {about['cpu']}; {about['date']}; load before: {LOAD:.1f}.",
        _table(TARGET_HEAD, [_target_row(t) for case in cases.values() for t in case.targets]),
    ]
    for name, case in cases.items():
        parts += [f"### {name}", _table(FIGURE_HEAD, _figure_rows(case))]
        if case.notes:
            parts.append(" ".join(case.notes))
    return "\n\n".join(parts)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines += [["---"] * len(lines[0]), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_markdown(file: Path, cases: Mapping[str, Measured]) -> None:
    """Put the tables between the markers of a file that has them; else write the whole file."""
    body = f"{BEGIN}\n\n{markdown(cases)}\n\n{END}"
    if file.exists():
        before, found, rest = file.read_text().partition(BEGIN)
        _, closed, after = rest.partition(END)
        if found and closed:
            file.write_text(before + body + after)
            return
    file.write_text(f"# Speed\n\n{body}\n")
