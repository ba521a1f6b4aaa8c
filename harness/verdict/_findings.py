"""Findings: what is wrong, on which rank, at which call and line, and the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.record import Stack
from harness.verdict._text import numbers


@dataclass(frozen=True, slots=True)
class GroupRef:
    """The process group a finding is about: its name (``"dp-cp"``, ``"world"``) and members."""

    name: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        many = len(self.ranks) > 8
        members = numbers(self.ranks) if many else ", ".join(map(str, self.ranks))
        return f"{self.name or 'group'} [{members}]"


@dataclass(frozen=True, slots=True)
class Side:
    """What one rank was doing: a state, the call it was in, and where in the user's code.

    ``state`` is one of ``"waiting"``, ``"returned"``, ``"raised"``, ``"skipped"``, ``"died"``,
    ``"running"`` (still in user code), ``"past"`` (went through this call and on). ``call`` is
    the call as text, ``all_reduce(SUM, float32[3])``, and ``number`` its number among all that the
    rank began (`Call.call`), where it is in the records; ``note`` says more in plain words.
    """

    rank: int
    state: str
    call: str = ""
    note: str = ""
    stack: Stack = ()
    guilty: bool = False
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault (or, at level ``"warning"``, one suspicion that could not be proved).

    ``kind`` is a term of the vocabulary (``"missing_participant"`` …), ``detail`` narrows it
    (``"reduce_op"``, ``"root"``, ``"dtype"``, ``"shape"``, ``"splits"``). ``ranks`` are those at
    fault; where nobody can be singled out, all that disagree. ``index`` is the call number in
    the group on the ranks that made it, counted from 1. ``summary`` is the verdict in one line.
    """

    kind: str
    summary: str
    level: str = "error"
    detail: str = ""
    group: GroupRef | None = None
    index: int | None = None
    op: str = ""
    ranks: tuple[int, ...] = ()
    sides: tuple[Side, ...] = ()
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    secondary: tuple[str, ...] = field(default=())

    @property
    def sites(self) -> dict[int, str]:
        """``file:line`` of each rank's call site, for the ranks that have one."""
        return {s.rank: f"{s.stack[0].file}:{s.stack[0].line}" for s in self.sides if s.stack}
