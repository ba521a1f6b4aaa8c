"""The second run: once more the same functions on new ranks, the last of them followed step by step.

It is bounded, leaves nothing behind, and says why where it found nothing.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.explain import Explanation
from harness.explain._explain import differed, explain
from harness.explain._paths import Contexts, Path
from harness.explain._plan import plan
from harness.explain._source import read_anew
from harness.explain._trace import TracePlan, read
from harness.launch._forkserver import LaunchError, server_for
from harness.launch._spec import WorldSpec
from harness.report import Run
from harness.supervisor._outcome import Outcome
from harness.supervisor._supervisor import Supervisor
from harness.verdict import Finding

LONGEST_FIRST = 10.0
"""Seconds of a first run after which ``auto`` makes no second."""

TIMES = 1.7
LEAST = {"auto": 1.7, "always": 10.0}
"""A second run may take so many times what the first took, and so many seconds at least, by the mode;
with what comes after it that is twice."""

STARTS_WITHIN = 10.0
STARTS_ANEW_WITHIN = 30.0
"""Seconds before that for ranks to come up, and for ranks that import torch each for itself. Most are
up in 0.1 s; a busy machine must not take from the run itself."""

CLOSES_WITHIN = 0.7
"""Seconds that a test must have left as the second run ends: for the ranks' ends and the report."""

LEAST_LEFT = 0.4
"""Seconds for which a second run is worth to be begun: most take less."""

LEAST_READING = 0.4
"""Seconds for reading the traces where the second run has taken all of its own."""

KEPT = 4096
"""Records of each rank."""

DIVERGING = frozenset(
    {
        "missing_participant",
        "call_mismatch",
        "argument_mismatch",
        "misaligned_calls",
        "group_mismatch",
        "group_creation",
        "deadlock",
        "unmatched_p2p",
        "use_after_destroy",
        "rank_raised",
        "rank_died",
        "straggler",
    }
)
"""Kinds of findings that may come of ranks going different ways."""

OF_CALLS = frozenset(
    {"missing_participant", "call_mismatch", "argument_mismatch", "misaligned_calls", "deadlock"}
)
"""Kinds of which one or the other may be proved first."""


@dataclass(frozen=True)
class Again:
    """What a second run needs: the specification, the functions so far, and how long it may take."""

    spec: WorldSpec
    preload: tuple[str, ...]
    payloads: Sequence[bytes]
    buffered_sends: bool
    test: str
    seconds: float
    """What the first run took."""
    left: float
    """Seconds that the test may still take."""


def may_diverge(finding: Finding, world_size: int) -> bool:
    """Whether ranks may have gone different ways before this."""
    if world_size < 2 or finding.kind not in DIVERGING:
        return False
    if finding.kind in ("rank_raised", "use_after_destroy"):
        # Where all raise, the ways need not have parted.
        return len(finding.ranks) < world_size
    if finding.kind == "argument_mismatch":
        stacks = [side.stack for side in finding.sides if side.stack]
        places = {tuple((f.file, f.line) for f in stack) for stack in stacks}
        return len(places) > 1 or any(f.in_loop for stack in stacks for f in stack)
    return True


def explained(run: Run, again: Again, mode: str) -> Explanation | None:
    """Run the functions once more and say where the ranks parted; None where it is not asked for."""
    finding = run.findings[0]
    if mode == "never" or not may_diverge(finding, run.world_size):
        return None
    if mode == "auto" and again.seconds > LONGEST_FIRST:
        return Explanation(
            reason=f"the first run took {again.seconds:.0f} s, and a second is made up to "
            f"{LONGEST_FIRST:.0f} s (--world-explain=always makes one)"
        )
    limit = max(LEAST[mode], TIMES * again.seconds)
    left = again.left - CLOSES_WITHIN
    if left < LEAST_LEFT:
        return Explanation(reason="the test has no time left for a second run")
    began = time.monotonic()
    try:
        found = _second(run, again, min(limit, left), began + left)
    except BaseException as error:
        if [kind.__name__ for kind in type(error).__mro__[:2]] != ["Failed", "OutcomeException"]:
            raise
        # A pytest-timeout, which must not take the place of the verdict on the first run.
        found = Explanation(reason="the test ran into its timeout in the second run")
    return replace(found, seconds=time.monotonic() - began)


def failed(error: Exception) -> Explanation:
    """What is said where the explainer itself is at fault."""
    trace = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(trace[-1].filename)}:{trace[-1].lineno}" if trace else ""
    return Explanation(
        reason=f"the second run ended with an internal error of pytest-collectives, please report it: "
        f"{type(error).__name__}: {error}{where}"
    )


def _second(run: Run, again: Again, limit: float, latest: float) -> Explanation:
    finding = run.findings[0]
    read_anew()
    with _shared() as (path, descriptor):
        followed = plan(finding, run.records, path, run.world_size, len(again.payloads))
        os.ftruncate(descriptor, run.world_size * followed.size)
        try:
            outcome, left = _run(again, followed, limit, latest)
        except (LaunchError, queue.Empty) as error:
            return Explanation(
                reason=f"the second run could not be made: {str(error) or 'no answer'}"
            )
        if outcome is None:
            return Explanation(reason=f"the second run took longer than {limit:.1f} s")
        if outcome.trouble:
            return Explanation(
                reason=f"the second run could not be made: {outcome.trouble.splitlines()[0]}"
            )
        errors = outcome.errors or [finding]
        sides = dict.fromkeys((*errors[0].ranks, *(side.rank for side in errors[0].sides)))
        with mmap.mmap(descriptor, run.world_size * followed.size) as memory:
            paths = _paths(memory, followed.events, run.world_size, tuple(sides), left)
    return _judged(finding, outcome, paths, limit)


def _paths(
    memory: mmap.mmap, events: int, world_size: int, first: Sequence[int], left: float
) -> dict[int, Path]:
    """The ways of the ranks, as far as there is time: of those that the finding is about first."""
    contexts = Contexts()
    now = time.monotonic()
    # What has been read is then looked at, which takes some time, too.
    left = max(left, LEAST_READING) * 2 / 3
    found: dict[int, Path] = {}
    for place, rank in enumerate(dict.fromkeys((*first, *range(world_size))), 1):
        if rank not in first and time.monotonic() > now + left:
            break
        by = now + left * min(1.0, place / len(first))
        path = Path(rank, read(memory, rank, events), contexts, by)
        if rank in first or not path.full:
            found[rank] = path
    return dict(sorted(found.items()))


def _judged(
    finding: Finding, outcome: Outcome, paths: dict[int, Path], limit: float
) -> Explanation:
    errors = outcome.errors
    places = tuple(differed(finding, paths))
    if not errors:
        return Explanation(reason="the fault did not recur in a second run", differed=places)
    again = errors[0]
    if again.kind == finding.kind or _alike(again, finding):
        return explain(again, outcome.records, paths)
    if again.kind == "straggler":
        return Explanation(
            reason=f"the second run was cut off after {limit:.1f} s", differed=places
        )
    return Explanation(reason=f"a second run ended otherwise: {again.summary}", differed=places)


def _alike(one: Finding, other: Finding) -> bool:
    """Whether two findings are of one fault: what is proved of it first may depend on time."""
    if {one.kind, other.kind} == {"straggler", "rank_died"}:
        # To be asked for its stack while each line is traced can kill a busy rank on CPython 3.11.
        return one.ranks == other.ranks
    return {one.kind, other.kind} <= OF_CALLS and bool(_sites(one) & _sites(other))


def _sites(finding: Finding) -> set[tuple[str, int]]:
    return {(f.file, f.line) for side in finding.sides for f in side.stack[:1]}


def _run(
    again: Again, followed: TracePlan, limit: float, latest: float
) -> tuple[Outcome | None, float]:
    """All functions, one after another, and the seconds that are left of ``limit``.

    None if the time is up before the last.
    """
    # gloo's own patience must not end before ours.
    spec = replace(again.spec, trace=followed, timeout=max(again.spec.timeout, limit + 5))
    supervisor = Supervisor(
        server_for(again.preload).launch(spec), spec.layout, again.buffered_sends
    )
    try:
        starting = STARTS_ANEW_WITHIN if spec.hash_seed else STARTS_WITHIN
        latest = min(time.monotonic() + starting + limit, latest)
        outcome, left = None, limit
        for payload in again.payloads:
            if left <= 0:
                return None, 0.0
            outcome = supervisor.run(payload, left, latest, test=again.test, kept=KEPT, always=True)
            left -= outcome.ended_at - outcome.began
            if outcome.trouble or outcome.errors:
                break
        return outcome, left
    finally:
        supervisor.close()


@contextlib.contextmanager
def _shared() -> Iterator[tuple[str, int]]:
    """A file in memory that ranks can open by its path, gone at the end."""
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("trace")
        try:
            yield f"/proc/{os.getpid()}/fd/{descriptor}", descriptor
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            yield file.name, file.fileno()
