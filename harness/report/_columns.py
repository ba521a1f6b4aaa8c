"""Blocks in columns: what met stands in one column, and a call left out leaves its place empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from harness.record import P2P_OPS, Call, Creation
from harness.report._blocks import Block, Blocks
from harness.verdict import Finding

ABSENT = frozenset({"missing_participant", "rank_raised", "rank_died", "straggler"})


@dataclass(slots=True)
class Gap:
    """A call that the rank left out, as ``made`` by another rank shows."""

    rank: int
    made: Block
    column: int = 0


def gaps_of(calls: Blocks, finding: Finding | None) -> list[Gap]:
    """The calls that ranks at fault did not make."""
    if finding is None or finding.kind not in ABSENT or finding.index is None:
        return []
    guilty = set(finding.ranks)
    made = next(
        (
            block
            for rank, lane in calls.lanes.items()
            if rank not in guilty
            for block in lane
            if _is_meant(calls, block, finding)
        ),
        None,
    )
    if made is None:
        return []
    came = {block.begun.rank for block in calls.met[made.meets]}
    skipped = finding.kind == "missing_participant"
    return [
        Gap(rank, made)
        for rank in finding.ranks
        if rank in calls.lanes and (skipped or rank not in came)
    ]


def _is_meant(calls: Blocks, block: Block, finding: Finding) -> bool:
    """Whether the finding is about this call."""
    begun, group = block.begun, finding.group
    if isinstance(begun, Creation):
        return finding.op == "new_group" and begun.index + 1 == finding.index
    if not isinstance(begun, Call) or group is None or begun.op in P2P_OPS:
        return False
    made = calls.groups.get(begun.group)
    return (
        begun.index + 1 == finding.index
        and made is not None
        and (made.name, made.ranks) == (group.name, group.ranks)
    )


Item = Block | Gap


def columns_of(calls: Blocks, gaps: list[Gap]) -> tuple[dict[int, int], dict[int, int]]:
    """The column of each block by its record, and the first free column of each rank.

    A rank's calls are in program order; what met shares a column where that is possible. After a
    gap, a rank's calls on that group stand where they belong, not where they really met.
    """
    gap_of = {gap.rank: gap for gap in gaps}
    lanes = {rank: _lane(calls, blocks, gap_of.get(rank)) for rank, blocks in calls.lanes.items()}
    members: dict[Hashable, set[int]] = defaultdict(set)
    for rank, lane in lanes.items():
        for key, _ in lane:
            members[key].add(rank)
    return _place(lanes, members)


def _place(
    lanes: Mapping[int, list[tuple[Hashable, Item]]], members: dict[Hashable, set[int]]
) -> tuple[dict[int, int], dict[int, int]]:
    columns: dict[int, int] = {}
    free = dict.fromkeys(lanes, 0)
    at = dict.fromkeys(lanes, 0)
    here: dict[Hashable, set[int]] = defaultdict(set)
    ready: list[Hashable] = []

    def arrive(rank: int) -> None:
        if at[rank] < len(lanes[rank]):
            key = lanes[rank][at[rank]][0]
            here[key].add(rank)
            if here[key] == members[key]:
                ready.append(key)

    for rank in lanes:
        arrive(rank)
    while here:
        if ready:
            key = ready.pop()
            together = here.pop(key)
        else:  # no two go on together: the earliest goes alone
            rank, key = min(
                ((rank, key) for key, ranks in here.items() for rank in ranks),
                key=lambda pair: _time(lanes[pair[0]][at[pair[0]]][1]),
            )
            together = {rank}
            here[key].discard(rank)
            members[key].discard(rank)
            if not here[key]:
                del here[key]
            elif here[key] == members[key]:
                ready.append(key)
        column = max(free[rank] for rank in together)
        for rank in together:
            item = lanes[rank][at[rank]][1]
            if isinstance(item, Gap):
                item.column = column
            else:
                columns[item.record] = column
            free[rank] = column + 1
            at[rank] += 1
        for rank in sorted(together):
            arrive(rank)
    return columns, free


def _lane(calls: Blocks, blocks: list[Block], gap: Gap | None) -> list[tuple[Hashable, Item]]:
    """The rank's blocks, with the gap where it belongs, and where each wants to stand."""
    seen: set[Hashable] = set()
    lane: list[tuple[Hashable, Item]] = []
    place = None if gap is None else _before(calls, blocks, gap)
    shifted = ""
    for position, block in enumerate(blocks):
        if gap is not None and position == place:
            lane.append((gap.made.meets, gap))
            shifted = _group(gap.made)
        key = block.meets
        if shifted and isinstance(key, tuple) and key[:2] == ("collective", shifted):
            key = ("collective", shifted, key[2] + 1)
        if key in seen:
            key = (key, block.record)
        seen.add(key)
        lane.append((key, block))
    if gap is not None and place == len(blocks):
        lane.append((gap.made.meets, gap))
    return lane


def _before(calls: Blocks, blocks: list[Block], gap: Gap) -> int:
    """The place of the gap among the rank's blocks.

    It comes after the last call that the rank made together with one that then made the missing
    call, and after what both did alike from there on; and before the call that came in its place.
    """
    met = gap.made.meets
    instead = next((p for p, block in enumerate(blocks) if block.meets == met), len(blocks))
    other = calls.lanes[gap.made.begun.rank]
    before = other[: other.index(gap.made)]
    places = {block.meets: place for place, block in enumerate(before)}
    together = [p for p, block in enumerate(blocks[:instead]) if block.meets in places]
    place = together[-1] + 1 if together else 0
    onward = places[blocks[together[-1]].meets] + 1 if together else 0
    for block in before[onward:]:
        if place == instead or _alike(calls, block) != _alike(calls, blocks[place]):
            break
        place += 1
    return place


def _alike(calls: Blocks, block: Block) -> tuple[object, ...]:
    """What two ranks have in common that make one call, each on a group of its own."""
    made = calls.groups.get(_group(block))
    stack = block.begun.stack
    site = (stack[0].file, stack[0].line, stack[0].loop) if stack else ()
    return (block.text, made.name if made is not None else "", site)


def _group(block: Block) -> str:
    return block.begun.group if isinstance(block.begun, Call) else ""


def _time(item: Item) -> float:
    return (item.made if isinstance(item, Gap) else item).begun.time
