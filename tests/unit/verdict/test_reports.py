"""From records to the whole text of a report: the texts are part of the product.

``REWRITE_GOLDEN=1`` in the environment writes the golden files anew: read what has changed in them
as someone would who has never seen this project.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from harness.explain import Explanation
from harness.report import WIDTH_IN_PYTEST, Run, render
from harness.report._text import WIDTH

from .faults import EXPLANATIONS, LINES, PROGRAMS, skip
from .program import Program, ar, barrier, compute, judged, program, records

GOLDEN = Path(__file__).parents[1] / "report" / "golden"

KINDS = {
    "missing_participant",
    "call_mismatch",
    "argument_mismatch",
    "misaligned_calls",
    "group_mismatch",
    "group_creation",
    "non_member_call",
    "group_leak",
    "deadlock",
    "unmatched_p2p",
    "message_race",
    "work_not_waited",
    "buffer_hazard",
    "aliased_reduction",
    "use_after_destroy",
    "rank_raised",
    "rank_died",
    "straggler",
    "value_mismatch",
    "mutated_value",
}


def straggler() -> Program:
    """Rank 1 computes for ever."""
    return program(
        [ar("rl/loss.py:40"), barrier("rl/loss.py:44")], [ar("rl/loss.py:40"), compute()]
    )


def run_of(
    faulty: Program, *, deadline: bool = False, explanation: Explanation | None = None
) -> Run:
    """All that a report reads of a program."""
    found = records(faulty)
    findings = judged(found, faulty.world_size, deadline=deadline)
    return Run(tuple(findings), explanation, faulty.world_size, records=tuple(found))


@functools.cache
def runs() -> dict[str, Run]:
    """By name: each program, a deadline, and what a second run has shown."""
    found = {name: run_of(make()) for name, make in PROGRAMS.items()}
    found["straggler"] = run_of(straggler(), deadline=True)
    for name, explanation in EXPLANATIONS.items():
        found[name] = run_of(skip(), explanation=explanation)
    return found


NAMES = [*PROGRAMS, "straggler", *EXPLANATIONS]


def text_of(run: Run, width: int = WIDTH_IN_PYTEST, verbosity: int = 0) -> str:
    """The report with the source lines of the programs."""
    return render(run, width=width, verbosity=verbosity, source=lambda f, n: LINES.get((f, n), ""))


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_a_report(name: str) -> None:
    """Records in, the whole text out, as the golden file has it."""
    compare(f"{name}.txt", text_of(runs()[name]))


@pytest.mark.parametrize("name", ["skip_in_a_loop", "many_follow", "found_long"])
def test_the_text_with_all_that_there_is(name: str) -> None:
    """With -v: every stack, more calls, what followed."""
    compare(f"{name}.verbose.txt", text_of(runs()[name], verbosity=1))


def test_every_kind_has_a_golden_file() -> None:
    """The whole vocabulary is shown."""
    assert KINDS == {finding.kind for run in runs().values() for finding in run.findings}
    assert {f"{name}.txt" for name in NAMES} <= {file.name for file in GOLDEN.iterdir()}


@pytest.mark.parametrize("width", [WIDTH_IN_PYTEST, WIDTH, 100])
@pytest.mark.parametrize("verbosity", [0, 1])
def test_all_lines_but_the_verdict_fit(width: int, verbosity: int) -> None:
    """Whatever is shown keeps within the width, as nothing here is too long to be cut."""
    for name, run in runs().items():
        verdicts = [finding.summary for finding in run.findings]
        for line in text_of(run, width, verbosity).splitlines():
            if any(line.endswith(verdict) for verdict in verdicts):
                continue
            assert len(line) <= width, f"{name}: {line!r}"


def test_the_verdict_alone() -> None:
    """With -q one line is left, that which is the first without it."""
    for run in runs().values():
        assert text_of(run, verbosity=-1) == text_of(run).splitlines()[0]


def compare(name: str, text: str) -> None:
    """Hold a text against its golden file."""
    golden = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        golden.write_text(f"{text}\n", encoding="utf-8")
    assert golden.is_file(), f"{golden} is missing; REWRITE_GOLDEN=1 would write it:\n{text}"
    assert golden.read_text(encoding="utf-8") == f"{text}\n"
