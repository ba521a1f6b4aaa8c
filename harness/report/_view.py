"""What a page draws: lanes, blocks in columns, groups with colours, gaps, the cycle of waits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from harness.layout import Layout
from harness.record import Call, GroupMade, NonMember, Touched, Value
from harness.report._blocks import Block, Blocks, blocks_of
from harness.report._columns import Gap, columns_of, gaps_of
from harness.report._run import Run
from harness.verdict import Finding

AXES = ("dp", "cp", "tp", "pp")
GROUPLESS = "groups made and destroyed"
NEUTRAL = 7
"""The last of the page's eight colours: no group has it."""


def view_of(run: Run) -> dict[str, Any]:
    """The picture of a run as plain data; times are milliseconds from its beginning.

    A row of ``blocks`` is rank, column, begin, end or None, state, colour, meeting or -1, number of
    its record, its text's number in ``texts``, mark ("", "side" or "guilty"), the ranks that it waits for.
    """
    finding = next(iter(run.findings), None)
    calls = blocks_of(run)
    gaps = gaps_of(calls, finding)
    columns, free = columns_of(calls, gaps)
    colours = _Colours(calls)
    marks = _marks(finding)
    grid = _grid(run)
    meetings: dict[Any, int] = {}
    texts: dict[str, int] = {}
    rows = []
    for block in calls.all:
        begun = block.begun
        meeting = -1
        if len(calls.met[block.meets]) > 1:
            meeting = meetings.setdefault(block.meets, len(meetings))
        rows.append(
            [
                begun.rank,
                columns[block.record],
                _ms(run, begun.time),
                None if block.end is None else _ms(run, block.end),
                block.state,
                colours.of(block),
                meeting,
                block.record,
                texts.setdefault(block.text, len(texts)),
                marks.get((begun.rank, begun.call), ""),
                calls.waits_for(block) if block.state == "open" else [],
            ]
        )
    return {
        "span": _ms(run, run.ended),
        "columns": max(free.values(), default=0),
        "lanes": [
            {"place": _place(grid, rank), **_lane(run, finding, calls, rank, free.get(rank, 0))}
            for rank in range(run.world_size)
        ],
        "colours": colours.legend,
        "texts": list(texts),
        "blocks": rows,
        "gaps": [_gap(run, gap, colours) for gap in gaps],
        "cycle": _cycle(calls, finding),
        "events": _events(run, calls, columns),
    }


class _Colours:
    """A colour for each name of groups, in the order in which they come up."""

    def __init__(self, calls: Blocks) -> None:
        self.legend: list[dict[str, Any]] = []
        self._calls = calls
        self._numbers: dict[str, int] = {}

    def of(self, block: Block) -> int:
        begun = block.begun
        if not isinstance(begun, Call):
            return self._number(GROUPLESS, None)
        made = self._calls.groups.get(begun.group)
        ranks = None if made is None else made.ranks
        name = "" if made is None else made.name
        return self._number(name or f"group {list(ranks or ())}", ranks)

    def _number(self, label: str, ranks: tuple[int, ...] | None) -> int:
        if label not in self._numbers:
            self._numbers[label] = len(self.legend)
            shared = sum(row["slot"] != NEUTRAL for row in self.legend)
            slot = NEUTRAL if label == GROUPLESS else shared % NEUTRAL
            self.legend.append({"label": label, "slot": slot, "groups": []})
        number = self._numbers[label]
        groups = self.legend[number]["groups"]
        if ranks is not None and list(ranks) not in groups:
            groups.append(list(ranks))
        return number


def _marks(finding: Finding | None) -> Mapping[tuple[int, int], str]:
    if finding is None:
        return {}
    return {
        (side.rank, side.number): "guilty" if side.guilty else "side"
        for side in finding.sides
        if side.number is not None and not (finding.kind == "missing_participant" and side.guilty)
    }


def _lane(
    run: Run, finding: Finding | None, calls: Blocks, rank: int, column: int
) -> dict[str, Any]:
    ended = calls.ended.get(rank)
    states = {} if finding is None else {side.rank: side.state for side in finding.sides}
    blocks = calls.lanes[rank]
    state = "waiting" if any(block.state == "open" for block in blocks) else "running"
    text = ""
    if ended is not None:
        state = ended.how
        text = ": ".join(filter(None, (ended.error, ended.message)))
    elif rank in states and states[rank] != "past":
        state = states[rank]
    return {
        "rank": rank,
        "state": state,
        "text": text,
        "ended": ended is not None,
        "end": None if ended is None else _ms(run, ended.time),
        "column": column,
        "guilty": finding is not None and rank in finding.ranks,
        "left_out": run.left_out.get(rank, 0),
    }


def _grid(run: Run) -> Layout | None:
    """The grid of the ranks; None where the groups of the run show that it has another order."""
    sizes: dict[str, Any] = {axis: run.layout[axis] for axis in AXES if axis in run.layout}
    try:
        grid = Layout(**sizes)
    except (TypeError, ValueError):
        return None
    named = [made for made in run.records if isinstance(made, GroupMade) and made.name in AXES]
    fits = grid.world_size == run.world_size and all(
        grid.group_of(made.name, made.rank) == made.ranks for made in named
    )
    return grid if fits else None


def _place(grid: Layout | None, rank: int) -> str:
    """Where the rank is in the grid, by the axes that have more than one place."""
    if grid is None:
        return ""
    places = grid.coordinates(rank)
    return " ".join(f"{axis} {places[axis]}" for axis in AXES if getattr(grid, axis) > 1)


def _gap(run: Run, gap: Gap, colours: _Colours) -> dict[str, Any]:
    begun = gap.made.begun
    return {
        "rank": gap.rank,
        "column": gap.column,
        "time": _ms(run, begun.time),
        "op": begun.op if isinstance(begun, Call) else "new_group",
        "text": gap.made.text,
        "colour": colours.of(gap.made),
        "record": gap.made.record,
    }


def _cycle(calls: Blocks, finding: Finding | None) -> list[list[int]]:
    """The waits of a deadlock, from a block (by its record) to a rank, around the cycle."""
    if finding is None or finding.kind != "deadlock" or not finding.ranks:
        return []
    open_in = {}
    for rank in finding.ranks:
        waiting = [block for block in calls.lanes.get(rank, ()) if block.state == "open"]
        if waiting:
            open_in[rank] = waiting[-1]
    seen: list[int] = []
    rank = finding.ranks[0]
    while rank in open_in and rank not in seen:
        seen.append(rank)
        onward = [to for to in calls.waits_for(open_in[rank]) if to in open_in and to != rank]
        if not onward:
            return []
        rank = next((to for to in onward if to in seen), onward[0])
    if rank not in seen:
        return []
    cycle = seen[seen.index(rank) :]
    return [
        [open_in[here].record, to] for here, to in zip(cycle, cycle[1:] + cycle[:1], strict=True)
    ]


def _events(run: Run, calls: Blocks, columns: Mapping[int, int]) -> list[dict[str, Any]]:
    """What happened besides calls: buffers touched in flight, wrong values, calls of non-members."""
    found = []
    for place, record in enumerate(run.records):
        if isinstance(record, Touched):
            text = f"{record.how} by {record.by}" if record.by else record.how
            text = f"buffer {text} while in flight"
        elif isinstance(record, NonMember):
            text = f"{record.op} on a group of others"
        elif isinstance(record, Value) and record.wrong:
            text = f"{record.kind} {record.name!r}: {record.wrong}"
        else:
            continue
        lane = calls.lanes.get(record.rank, [])
        before = bisect_right(lane, record.time, key=lambda block: block.begun.time)
        column = columns[lane[before - 1].record] if before else -1
        found.append(
            {
                "rank": record.rank,
                "column": column,
                "time": _ms(run, record.time),
                "text": text,
                "record": place,
            }
        )
    return found


def _ms(run: Run, time: float) -> float:
    return round((time - run.began) * 1000, 3)
