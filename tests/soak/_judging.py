"""Whether a world of the soak ended as it had to: the right values, or the right verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness import Finding, WorldError
from tests.soak._calls import expected
from tests.soak._plan import Case

NO_ROOM = r"No space left on device|No such file or directory"
MANY_FILES = r"[Oo]pen files"
MISMATCHES = ("call_mismatch", "argument_mismatch", "misaligned_calls")
CYCLES = ("deadlock", "unmatched_p2p")
DIED_EARLY = r"rank {} ended with SIGKILL before the function began"


@dataclass(frozen=True)
class Ends:
    """How a world may end: with the right values, with this verdict, or with this RuntimeError.

    With ``meets`` the verdict may also be about what a rank that left a call out, and went on, met
    with its later calls: another operation of the group, or a cycle of waits.
    """

    passes: bool = False
    kinds: tuple[str, ...] = ()
    text: str = ""
    not_started: str = ""
    meets: bool = False


def ends_of(case: Case) -> Ends:
    """What has to become of a case."""
    kind, how = case.kind, case.how
    if kind == "flood_fault":
        kind, how = how, ""
    if kind == "skip":
        alone = ("unmatched_p2p",) if case.ops[case.step].name == "p2p" else ()
        goes_on = case.step + 1 < len(case.ops) and how != "rest"
        return Ends(kinds=("missing_participant", *alone), meets=goes_on)
    if kind == "raise":
        return Ends(kinds=("rank_raised",))
    if kind == "kill":
        return Ends(kinds=("rank_died",), text="SIGKILL")
    if kind == "kill_outside":
        early = DIED_EARLY.format(case.rank)
        return Ends(kinds=("rank_died",), text="SIGKILL", not_started=early)
    if kind == "stop":
        return Ends(kinds=("straggler",))
    if kind == "disk_full":
        # A world that puts nothing in the temp directory does not mind.
        return Ends(passes=True, not_started=NO_ROOM)
    if kind == "disk_full_rank":
        # A group that is made with the disk full cannot be; one made before does not mind.
        return Ends(how == "midway", ("rank_raised",), NO_ROOM)
    if kind == "nofile":
        return Ends(not_started=MANY_FILES)
    if kind == "nofile_rank" and how == "raise":
        return Ends(kinds=("rank_raised",), text=MANY_FILES)
    if kind == "nofile_rank" and how == "hold":
        # What is connected works; else a call raises, or gloo aborts the process.
        return Ends(True, ("rank_raised", "rank_died"), f"{MANY_FILES}|SIGABRT")
    return Ends(passes=True)


def complaint(case: Case, ended: list[Any] | Exception) -> str:
    """What is wrong with the end of a case: its results or its error; empty if it is right."""
    wanted = ends_of(case)
    if isinstance(ended, list):
        values = [expected(case, rank) for rank in range(case.world_size)]
        if not wanted.passes:
            return f"passed, where {wanted} was due"
        return "" if ended == values else f"gave {ended}, not {values}"
    text = str(ended)
    if not isinstance(ended, WorldError):
        if wanted.not_started and re.search(wanted.not_started, text):
            return ""
        return f"{type(ended).__name__}, where {wanted} was due: {text}"
    errors = [finding for finding in ended.findings if finding.level == "error"]
    if len(errors) == 1 and _fits(wanted, case, errors[0]) and re.search(wanted.text, text):
        return ""
    told = "; ".join(f"{finding.kind} {finding.ranks}" for finding in errors)
    return f"{told}, where {wanted} of rank {case.rank} was due:\n{text}"


def _fits(wanted: Ends, case: Case, finding: Finding) -> bool:
    if case.kind == "disk_full_rank" and case.how == "midway":
        return finding.kind in wanted.kinds  # the disk is full for all ranks
    if wanted.meets and finding.kind in CYCLES:
        return case.rank in finding.ranks
    if wanted.meets and finding.kind in MISMATCHES:
        # Of two ranks that disagree, neither can be singled out.
        ends = finding.op in ("send", "recv")
        two = ends or (finding.group is not None and len(finding.group.ranks) == 2)
        return case.rank in finding.ranks and (two or finding.ranks == (case.rank,))
    return finding.kind in wanted.kinds and finding.ranks == (case.rank,)
