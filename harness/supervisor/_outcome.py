"""What came of one run of a function on all ranks, before anybody asks what it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.record import Ended, Record
from harness.supervisor._peer import Peer
from harness.verdict import Finding


@dataclass(slots=True)
class Outcome:
    """What came of one run: results by rank, or findings."""

    results: list[bytes]
    ended: list[Ended | None]
    findings: list[Finding] = field(default_factory=list)
    stacks: dict[int, str] = field(default_factory=dict)
    output: list[dict[str, str]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    to_verdict: float = 0.0
    """Seconds from the last thing a rank did to the verdict."""
    trouble: str = ""
    """Why the ranks did not start, where they did not."""
    left: tuple[tuple[str, ...], ...] = ()
    """For each rank what the function left behind, where that was watched."""
    records: tuple[Record, ...] = ()
    """The groups of each rank, then the last records of all, by time, where they were asked for."""
    left_out: dict[int, int] = field(default_factory=dict)
    """By rank, how many earlier records are not among them."""
    began: float = 0.0
    ended_at: float = 0.0
    measured: tuple[tuple[Any, ...], ...] = ()
    """What coverage.py measured in the ranks, where that was asked for."""

    @property
    def errors(self) -> list[Finding]:
        """The findings that end a world."""
        return [finding for finding in self.findings if finding.level == "error"]


def gathered(peers: Sequence[Peer], *, records: bool, **told: Any) -> Outcome:
    """What the ranks have left at the end of a run; ``told`` is what the supervisor adds to it."""
    return Outcome(
        results=[peer.result for peer in peers],
        ended=[peer.ended for peer in peers],
        output=[peer.take_output() for peer in peers],
        notes=tuple(dict.fromkeys(peer.note for peer in peers if peer.note)),
        left=tuple(peer.left for peer in peers),
        records=_records(peers) if records else (),
        left_out={
            peer.rank: peer.recorded - len(peer.records)
            for peer in peers
            if peer.recorded > len(peer.records)
        },
        measured=tuple(peer.measured for peer in peers if peer.measured is not None),
        **told,
    )


def _records(peers: Sequence[Peer]) -> tuple[Record, ...]:
    groups = [made for peer in peers for made in peer.groups]
    records = [record for peer in peers for record in peer.records]
    return (*groups, *sorted(records, key=lambda record: getattr(record, "time", 0.0)))
