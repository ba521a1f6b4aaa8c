"""Findings as text: the verdict, where ranks parted, what each did, what to do, what followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.explain import Divergence
from harness.report._advice import advice
from harness.report._divergence import explained
from harness.report._lines import (
    Line,
    Source,
    Style,
    line,
    listed,
    read_source,
    unstyled,
    written,
)
from harness.report._run import Run
from harness.report._sequence import sequence
from harness.report._stacks import stacks
from harness.report._table import table
from harness.verdict import Finding

WIDTH = 80
WIDTH_IN_PYTEST = 72
"""Columns of a report in pytest, which puts a margin of eight before the lines of an error."""

MOST_FOLLOWED = 2


def render(
    run: Run,
    *,
    width: int = WIDTH,
    verbosity: int = 0,
    source: Source = read_source,
    style: Style = unstyled,
) -> str:
    """The report on a run. Its first line is the verdict of the first finding, however long.

    Everything else keeps within ``width`` as far as it can. ``verbosity`` is pytest's: below 0
    the verdict alone, from 1 on all that there is. ``source`` looks up lines that the records do
    not hold. ``style`` writes each part of a line by its role, as colour does.
    """
    return written(lines(run, width=width, verbosity=verbosity, source=source), style)


def lines(
    run: Run, *, width: int = WIDTH, verbosity: int = 0, source: Source = read_source
) -> list[Line]:
    """The report as lines of parts, each with its role."""
    if verbosity < 0:
        return [_verdict(run.findings[0], 1)] if run.findings else []
    found: list[Line] = []
    for number, finding in enumerate(run.findings, start=1):
        if number > 1:
            found.append(())
        found += _finding(run, finding, number, width, verbosity, source)
    return found


def _finding(
    run: Run, finding: Finding, number: int, width: int, verbosity: int, source: Source
) -> Iterator[Line]:
    yield _verdict(finding, number)
    explanation = run.explanation if number == 1 else None
    yield from explained(explanation, width, verbosity)
    yield from table(finding.sides, width)
    yield from sequence(run, finding, width, verbosity)
    yield from stacks(finding.sides, width, verbosity, source)
    yield from listed("what speaks for it:", finding.evidence, width)
    place = explanation.divergence if explanation is not None else None
    yield from listed("what to do:", _hints(finding, place), width, "hint")
    yield from _followed(finding.secondary, width, verbosity)


def _verdict(finding: Finding, number: int) -> Line:
    start = f"[{number}] " if number > 1 else ""
    if finding.level == "warning":
        return line(("warning", f"{start}warning: {finding.summary}"))
    return line(("verdict", f"{start}{finding.summary}"))


def _hints(finding: Finding, place: Divergence | None) -> Sequence[str]:
    said = advice(finding, place)
    return (*finding.hints, *said) if said not in (finding.hints, ()) else finding.hints


def _followed(items: Sequence[str], width: int, verbosity: int) -> Iterator[Line]:
    """Errors that are no cause: a few, or their number."""
    if len(items) <= MOST_FOLLOWED or verbosity > 0:
        yield from listed("what followed:", items, width)
        return
    yield ()
    yield line(("heading", "what followed:"))
    yield line(("dim", f"  {len(items)} errors of other ranks (-v shows them)"))
