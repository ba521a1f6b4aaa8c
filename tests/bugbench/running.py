"""Running one program, faulty or corrected, recorded; and what was found."""

from __future__ import annotations

import functools
import time
import warnings
from dataclasses import dataclass
from typing import Any

from harness import Finding, World, WorldError, WorldWarning
from harness.explain import Explanation
from tests.bugbench.program import Expect, Ground, Program, on_rank

TIMEOUT = 10.0


@dataclass(frozen=True)
class Found:
    """What a tool said of one run."""

    findings: tuple[Finding, ...]
    text: str
    seconds: float
    to_verdict: float
    used_deadline: bool
    results: list[Any] | None
    explanation: Explanation | None = None


def run(program: Program, *, fixed: bool, seed: int, explain: str = "never") -> Found:
    """Run it recorded; findings are errors, then warnings."""
    options = {"timeout": TIMEOUT, "seed": seed, "explain": explain, **program.world}
    started = time.monotonic()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        world = World(**options)
        ground = Ground(fixed, world.world_size, seed)
        try:
            with world:
                results = world.run(functools.partial(on_rank, main=program.main, ground=ground))
        except WorldError as error:
            seconds = time.monotonic() - started
            late = any(f.kind == "straggler" for f in error.findings)
            why = None if error.run is None else error.run.explanation
            return Found(
                error.findings, str(error), seconds, error.seconds_to_verdict, late, None, why
            )
    seconds = time.monotonic() - started
    said = [w.message for w in caught if isinstance(w.message, WorldWarning)]
    findings = tuple(f for w in said for f in w.findings)
    text = "\n".join(map(str, said))
    return Found(findings, text, seconds, 0.0, False, results)


def right_kind(expect: Expect, finding: Finding) -> bool:
    """Whether the finding is of the expected kind, and detail where one is expected."""
    return finding.kind in expect.kind.split("|") and (
        not expect.detail or finding.detail in expect.detail.split("|")
    )


def located(program: Program, expect: Expect, finding: Finding, text: str) -> bool:
    """Right kind, ranks at fault, a marked line, and what the report has to say."""
    if not right_kind(expect, finding) or set(finding.ranks) != set(expect.ranks):
        return False
    sites = {tuple(_split(site)) for site in finding.sites.values()}
    frames = {(f.file, f.line) for side in finding.sides for f in side.stack}
    return bool((sites | frames) & set(program.marks)) and expect.text in text


def _split(site: str) -> tuple[str, int]:
    file, _, line = site.rpartition(":")
    return file, int(line)
