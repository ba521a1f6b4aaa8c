"""What pictures need to know of the calls of a run: when each ended, and which of them met."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from harness.record import (
    P2P_OPS,
    Call,
    Creation,
    Destruction,
    Ended,
    Failed,
    Finished,
    GroupMade,
    Waiting,
)
from harness.report._run import Run
from harness.verdict._text import call_text, creation_text

Begun = Call | Creation | Destruction


@dataclass(slots=True, eq=False)
class Block:
    """A call, group creation or destruction of a rank, as it is drawn.

    ``record`` is its place in the run's records. ``state`` is ``"done"``, ``"failed"``, ``"open"``
    (the rank was in it when the run ended) or ``"flying"`` (never waited for). ``meets`` names
    what it met: blocks with the same one belong together.
    """

    record: int
    begun: Begun
    text: str
    meets: Hashable
    end: float | None = None
    state: str = "open"
    error: str = ""


@dataclass(slots=True)
class Blocks:
    """All blocks of a run, and each rank's in program order; its groups; how ranks ended."""

    all: list[Block] = field(default_factory=list)
    lanes: dict[int, list[Block]] = field(default_factory=dict)
    groups: dict[str, GroupMade] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    met: dict[Hashable, list[Block]] = field(default_factory=lambda: defaultdict(list))

    def waits_for(self, block: Block) -> list[int]:
        """The ranks that an unfinished call waits for, as far as it can be told."""
        begun = block.begun
        if isinstance(begun, Destruction):
            return []
        if isinstance(begun, Call) and begun.op in P2P_OPS:
            return [] if begun.peer is None or len(self.met[block.meets]) > 1 else [begun.peer]
        came = {other.begun.rank for other in self.met[block.meets]}
        return [rank for rank in self.members(begun) if rank not in came]

    def members(self, begun: Begun) -> Iterable[int]:
        """The ranks that take part in a call."""
        if isinstance(begun, Call):
            made = self.groups.get(begun.group)
            return made.ranks if made is not None else (begun.rank,)
        if isinstance(begun, Creation):
            return begun.ranks if begun.local else sorted(self.lanes)
        return (begun.rank,)


def blocks_of(run: Run) -> Blocks:
    """The blocks of a run."""
    found = Blocks(lanes={rank: [] for rank in range(run.world_size)})
    by_number: dict[tuple[int, int], Block] = {}
    for place, record in enumerate(run.records):
        if isinstance(record, GroupMade):
            found.groups.setdefault(record.key, record)
        elif isinstance(record, Call | Creation | Destruction):
            block = Block(place, record, _text(record), _meets(record))
            if isinstance(record, Call) and record.async_op:
                block.state = "flying"
            found.all.append(block)
            found.lanes.setdefault(record.rank, []).append(block)
            found.met[block.meets].append(block)
            by_number[record.rank, record.call] = block
        elif isinstance(record, Waiting | Finished | Failed):
            known = by_number.get((record.rank, record.call))
            if known is not None:
                _go_on(known, record)
        elif isinstance(record, Ended):
            found.ended[record.rank] = record
    for lane in found.lanes.values():
        lane.sort(key=lambda block: block.begun.call)
    for block in found.all:
        ended = found.ended.get(block.begun.rank)
        if block.state == "open" and ended is not None and ended.how != "died":
            # Who left the function is in no call any more: what writes no end is over.
            block.state = "done"
    return found


def _go_on(block: Block, record: Waiting | Finished | Failed) -> None:
    if isinstance(record, Waiting):
        if block.end is None:
            block.state = "open"
        return
    block.end = record.time
    block.state = "done"
    if isinstance(record, Failed):
        block.state, block.error = "failed", f"{record.error}: {record.message}"


def _text(begun: Begun) -> str:
    if isinstance(begun, Call):
        return call_text(begun)
    if isinstance(begun, Creation):
        return creation_text(begun)
    return "destroy_process_group()"


def _meets(begun: Begun) -> Hashable:
    if isinstance(begun, Creation) and not begun.local:
        return ("creation", begun.index)
    if not isinstance(begun, Call) or (begun.op in P2P_OPS and begun.peer is None):
        return ("alone", begun.rank, begun.call)
    if begun.op == "send":
        return ("message", begun.group, begun.rank, begun.peer, begun.tag, begun.index)
    if begun.op == "recv":
        return ("message", begun.group, begun.peer, begun.rank, begun.tag, begun.index)
    return ("collective", begun.group, begun.index)
