"""A run of a function on a world, as every report reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.explain import Explanation
from harness.record import Record
from harness.verdict import Finding


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of one run once it is over.

    ``findings`` are the errors, the cause first, then the warnings. ``layout`` gives the grid
    (``{"dp": 2, "cp": 2, "tp": 1, "pp": 1, "ep": 1}``). ``records`` are the groups of each rank,
    then the last records of all ranks by time; ``left_out`` says how many earlier ones of a rank
    are not among them. ``began`` and ``ended`` are seconds of the clock of the records.
    ``test`` is pytest's node id, or empty; ``function`` the name of what ran. ``output`` holds what
    each rank printed and logged, by the name of the stream.
    """

    findings: tuple[Finding, ...] = ()
    explanation: Explanation | None = None
    world_size: int = 0
    layout: Mapping[str, int] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    left_out: Mapping[int, int] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    test: str = ""
    function: str = ""
    output: tuple[Mapping[str, str], ...] = ()
