"""What a test gets of an outcome: results, an error, warnings, a skip; and the run that reports read."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from harness import _settings, _shipping
from harness._errors import WorldError, WorldWarning
from harness.launch._rank import CURRENT_TEST
from harness.layout import Layout
from harness.report import WIDTH_IN_PYTEST, Run, render
from harness.supervisor._outcome import Outcome

AXES = ("dp", "cp", "tp", "pp", "ep")


def sizes(layout: Layout) -> dict[str, int]:
    """The layout as reports name it."""
    return {name: getattr(layout, name) for name in AXES}


def run_of(outcome: Outcome, layout: Layout, function: str) -> Run:
    """The run as reports read it."""
    return Run(
        findings=tuple(outcome.findings),
        world_size=layout.world_size,
        layout=sizes(layout),
        records=outcome.records,
        left_out=outcome.left_out,
        began=outcome.began,
        ended=outcome.ended_at,
        test=os.environ.get(CURRENT_TEST, "").rpartition(" ")[0],
        function=function,
        output=tuple(outcome.output),
    )


def error_of(outcome: Outcome, run: Run, note: str) -> WorldError:
    """What is raised for a run with errors; ``note`` says why its deadline was cut, if it was."""
    settings = _settings.current
    text = render(run, width=WIDTH_IN_PYTEST, verbosity=max(0, settings.detail))
    if note and outcome.errors[0].kind == "straggler":
        text += f"\n{note}"
    if settings.on_output is None:
        text += printed(outcome)
    return WorldError(
        text,
        outcome.findings,
        exceptions=_exceptions(outcome),
        stacks=outcome.stacks,
        output=outcome.output,
        seconds_to_verdict=outcome.to_verdict,
        run=run,
    )


def warn(outcome: Outcome, run: Run) -> None:
    """Warn of what could not be proved, at the line of the test that has called `World.run`."""
    __tracebackhide__ = True
    import warnings

    for finding in outcome.findings:
        alone = replace(run, findings=(finding,), explanation=None)
        text = render(alone, width=WIDTH_IN_PYTEST, verbosity=_settings.current.detail)
        warnings.warn(WorldWarning(text, [finding]), stacklevel=5)
    for note in outcome.notes:
        warnings.warn(WorldWarning(note), stacklevel=5)


def apply_outcomes(outcome: Outcome) -> None:
    """A skip or xfail on a rank is the test's, as no rank waits for that one."""
    __tracebackhide__ = True
    for how in ("skipped", "xfailed"):
        said = {e.rank: e.message for e in outcome.ended if e is not None and e.how == how}
        if said:
            import pytest

            ranks = "" if len(said) == len(outcome.ended) else f"rank {min(said)}: "
            message = ranks + next(iter(said.values()))
            if how == "skipped":
                pytest.skip(message)
            pytest.xfail(message)


def results(outcome: Outcome) -> list[Any]:
    """What the function returned on each rank."""
    __tracebackhide__ = True
    return [_result(rank, data) for rank, data in enumerate(outcome.results)]


def printed(outcome: Outcome) -> str:
    """What the ranks printed, for where no pytest shows it in sections of its own."""
    parts = []
    for rank, streams in enumerate(outcome.output):
        for name, text in streams.items():
            if text.strip():
                parts.append(f"\n--- {name} of rank {rank} ---\n{text[-2000:].rstrip()}")
    return "".join(parts)


def _result(rank: int, data: bytes) -> Any:
    try:
        return _shipping.unpack(data)
    except Exception as error:
        raise TypeError(
            f"the result of rank {rank} cannot be read in the pytest process: "
            f"{type(error).__name__}: {error}. Return plain values or tensors."
        ) from error


def _exceptions(outcome: Outcome) -> dict[int, BaseException]:
    found: dict[int, BaseException] = {}
    for rank, (data, ended) in enumerate(zip(outcome.results, outcome.ended, strict=True)):
        if data and ended is not None and ended.how in ("raised", "failed"):
            try:
                error = _shipping.unpack(data)
            except Exception:
                continue  # its text is in the report all the same
            if isinstance(error, BaseException):
                found[rank] = error
    return found
