"""The calls of each rank around a finding, and which calls of two ranks are one call.

Physically calls of a group pair by position. Here they are laid beside each other as the program
meant them: a call that one rank left out is a gap, and what comes after it is in step again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.record import P2P_OPS, Call, Creation, Ended, GroupMade, Stack
from harness.report._run import Run
from harness.verdict import Finding
from harness.verdict._align import cheapest, idle_names
from harness.verdict._sites import loop_evidence

TRAILING = 1.0
MESSAGE = 0.3
OTHER_POSITION = 0.4
OTHER_GROUP = 1.0
OTHER_LINE = 1.5
OTHER_PASS = 2.5
OTHER_OP = 3.0
NEVER = float("inf")

Slot = tuple[object, ...]
"""What calls of several ranks have in common that meet: group and index, or a message's stream."""

ONE_CALL = frozenset(
    {
        "missing_participant",
        "call_mismatch",
        "argument_mismatch",
        "group_creation",
        "rank_raised",
        "rank_died",
        "straggler",
    }
)
"""Findings about one call: the others made it, or made another in its place."""

ABSENT = frozenset({"missing_participant", "rank_raised", "rank_died"})
"""Findings of which those at fault did not make that call."""


@dataclass(slots=True, eq=False)
class Entry:
    """A call of a rank. ``key`` is the same for calls that the program means as one."""

    made: Call | Creation
    group: str
    slot: Slot
    key: int
    lines: tuple[tuple[str, int], ...]
    wanted: bool = False
    """Whether it is the call that the finding is about."""

    @property
    def op(self) -> str:
        """The operation."""
        return self.made.op if isinstance(self.made, Call) else "new_group"


@dataclass(slots=True)
class Column:
    """Ranks whose calls are alike. ``before`` counts their calls that are not among these."""

    ranks: tuple[int, ...]
    guilty: bool
    entries: list[Entry]
    before: int
    over: bool


@dataclass(slots=True)
class _Reader:
    """Makes entries, each kind of stack and key only once."""

    groups: dict[tuple[int, str], GroupMade]
    idle: frozenset[str] = frozenset()
    keys: dict[object, int] = field(default_factory=dict)
    stacks: dict[int, tuple[tuple[tuple[str, int], ...], object]] = field(default_factory=dict)

    def entry(self, made: Call | Creation) -> Entry:
        known = self.stacks.get(id(made.stack))
        if known is None:
            lines = tuple((f.file, f.line) for f in made.stack)
            loops = tuple(f.loop for f in made.stack)
            known = self.stacks[id(made.stack)] = lines, (lines, loops)
        lines, place = known
        if isinstance(made, Creation):
            return Entry(made, "", ("new_group", made.index), self._number(("new", place)), lines)
        group = self.groups.get((made.rank, made.group))
        members = group.ranks if group is not None else ()
        name = group_name(group)
        key = self._number((made.op, made.label, place, group.name if group else ""))
        if made.op in P2P_OPS:
            ends = (made.rank, made.peer) if made.op == "send" else (made.peer, made.rank)
            return Entry(made, name, ("p2p", made.group, ends, made.tag, made.index), key, lines)
        return Entry(made, name, (made.group, members, made.index), key, lines)

    def _number(self, key: object) -> int:
        return self.keys.setdefault(key, len(self.keys))


def group_name(group: GroupMade | None) -> str:
    """The group in a word: its name, or its members."""
    if group is None:
        return ""
    if group.name:
        return group.name
    members = group.ranks
    if len(members) > 4:
        return f"[{members[0]}..{members[-1]}]"
    return f"[{', '.join(map(str, members))}]"


def columns(run: Run, finding: Finding, window: int, most: int) -> list[Column]:
    """Classes of ranks by their calls around the finding, at most so many, in rank order."""
    made, over, reader = _read(run)
    numbers = {s.rank: s.number for s in finding.sides if s.number is not None}
    guilty = {s.rank for s in finding.sides if s.guilty}
    ranks = _taking_part(run, finding, numbers, guilty)
    positions = {
        rank: {call.call: place for place, call in enumerate(made.get(rank, ()))} for rank in ranks
    }
    wanted = _wanted(finding, made, positions, numbers, guilty, reader)
    found: list[Column] = []
    classes: dict[tuple[object, ...], Column] = {}
    for rank in ranks:
        calls = made.get(rank, [])
        anchor = _anchor(finding, calls, positions[rank], numbers.get(rank), reader)
        first = max(0, anchor - window)
        entries = [reader.entry(call) for call in calls[first : anchor + window + 1]]
        for entry in entries:
            entry.wanted = (rank, entry.made.call) in wanted
        key = (rank in guilty, *((e.key, e.wanted) for e in entries))
        if len(ranks) <= most:
            key += tuple(getattr(e.made, "peer", None) for e in entries)
        column = classes.get(key)
        if column is None:
            before = first + run.left_out.get(rank, 0)
            column = Column((rank,), rank in guilty, entries, before, rank in over)
            classes[key] = column
            found.append(column)
        else:
            column.ranks = (*column.ranks, rank)
    return _chosen(_without_beginnings(found), most)


def _read(run: Run) -> tuple[dict[int, list[Call | Creation]], set[int], _Reader]:
    made: dict[int, list[Call | Creation]] = {}
    over: set[int] = set()
    groups: dict[tuple[int, str], GroupMade] = {}
    for record in run.records:
        kind = type(record)
        if kind is Call or kind is Creation:
            made.setdefault(record.rank, []).append(record)  # type: ignore[arg-type]
        elif isinstance(record, GroupMade):
            groups[record.rank, record.key] = record
        elif isinstance(record, Ended):
            over.add(record.rank)
    return made, over, _Reader(groups)


def _taking_part(
    run: Run, finding: Finding, numbers: dict[int, int], guilty: set[int]
) -> tuple[int, ...]:
    if finding.group is not None:
        return tuple(sorted({*finding.group.ranks, *guilty}))
    return tuple(sorted(numbers.keys() | guilty)) or tuple(range(run.world_size))


def _wanted(
    finding: Finding,
    made: dict[int, list[Call | Creation]],
    positions: dict[int, dict[int, int]],
    numbers: dict[int, int],
    guilty: set[int],
    reader: _Reader,
) -> set[tuple[int, int]]:
    """The calls of the finding, by rank and number: those that meet, where it is about one call."""
    found: dict[tuple[int, int], Slot] = {}
    for rank, number in numbers.items():
        place = positions.get(rank, {}).get(number)
        if place is None or (rank in guilty and finding.kind in ABSENT):
            continue
        found[rank, number] = reader.entry(made[rank][place]).slot
    if finding.kind not in ONE_CALL or not found:
        return set(found)
    (slot, _), *_ = Counter(found.values()).most_common(1)
    return {call for call, where in found.items() if where == slot}


def _anchor(
    finding: Finding,
    calls: Sequence[Call | Creation],
    positions: dict[int, int],
    number: int | None,
    reader: _Reader,
) -> int:
    """Where in a rank's calls the finding is."""
    if number is not None and number in positions:
        return positions[number]
    if finding.group is None or finding.index is None:
        return len(calls)
    members = finding.group.ranks
    for place in range(len(calls) - 1, -1, -1):
        call = calls[place]
        if not isinstance(call, Call) or call.op in P2P_OPS:
            continue
        group = reader.groups.get((call.rank, call.group))
        if group is not None and group.ranks == members and call.index < finding.index - 1:
            return place + 1
    return len(calls)


def _without_beginnings(found: list[Column]) -> list[Column]:
    """A rank that only has not come as far as others is one of them."""
    kept: list[Column] = []
    for column in sorted(found, key=lambda c: (-len(c.entries), c.ranks)):
        keys = [(e.key, e.wanted) for e in column.entries]
        for other in kept:
            if other.guilty == column.guilty and not column.over and not column.guilty:
                begun = [(e.key, e.wanted) for e in other.entries[: len(keys)]]
                if begun == keys and other.before == column.before:
                    other.ranks = tuple(sorted((*other.ranks, *column.ranks)))
                    break
        else:
            kept.append(column)
    return kept


def _chosen(found: list[Column], most: int) -> list[Column]:
    ordered = sorted(found, key=lambda c: (not c.guilty, -len(c.ranks), c.ranks))
    chosen = ordered[:most]
    others = [c for c in ordered[most:] if not c.guilty]
    if others and all(c.guilty for c in chosen):
        chosen[-1] = others[0]
    return sorted(chosen, key=lambda c: c.ranks)


def rows(found: Sequence[Column], finding: Finding) -> list[list[Entry | None]]:
    """The calls side by side: a row for each call of the program, a cell for each column."""
    if not found:
        return []
    order = sorted(
        range(len(found)),
        key=lambda k: (
            not any(e.wanted for e in found[k].entries),
            found[k].guilty,
            -len(found[k].entries),
        ),
    )
    first = order[0]
    made: list[list[Entry | None]] = []
    for entry in found[first].entries:
        row: list[Entry | None] = [None] * len(found)
        row[first] = entry
        made.append(row)
    idle = idle_names(
        [e.made for e in column.entries if isinstance(e.made, Call)] for column in found
    )
    forced = finding.kind in ONE_CALL and any(e.wanted for c in found for e in c.entries)
    for k in order[1:]:
        pairs = _aligned(found[first], found[k], forced, idle)
        _lay_beside(made, first, k, found[first].entries, found[k].entries, pairs)
    return made


def _lay_beside(
    made: list[list[Entry | None]],
    first: int,
    k: int,
    ours: Sequence[Entry],
    theirs: Sequence[Entry],
    pairs: dict[int, int],
) -> None:
    """Put the calls of column ``k`` into the rows; what has no partner by its time."""
    at = 0
    for j, entry in enumerate(theirs):
        if j in pairs:
            at = _row_of(made, first, ours[pairs[j]])
        else:
            end = next((_row_of(made, first, ours[i]) for o, i in pairs.items() if o > j), None)
            at = _place(made, at, len(made) if end is None else end, first, k, entry)
        made[at][k] = entry
        at += 1


def _row_of(made: list[list[Entry | None]], first: int, entry: Entry) -> int:
    return next(n for n, row in enumerate(made) if row[first] is entry)


def _place(
    made: list[list[Entry | None]], start: int, end: int, first: int, k: int, entry: Entry
) -> int:
    """A row for a call without a partner in the first column: one it shares, or a new one."""
    for n in range(start, end):
        row = made[n]
        if row[first] is None and row[k] is None and any(e and e.key == entry.key for e in row):
            return n
    times = [min(e.made.time for e in row if e is not None) for row in made[start:end]]
    n = next((start + p for p, time in enumerate(times) if time > entry.made.time), end)
    made.insert(n, [None] * len(made[0]))
    return n


def _aligned(one: Column, two: Column, forced: bool, idle: frozenset[str]) -> dict[int, int]:
    """The cheapest pairing of two columns' calls, as places in ``two`` → places in ``one``."""
    a, b = one.entries, two.entries
    known: dict[tuple[int, int, bool], float] = {}

    def cost(i: int, j: int) -> float:
        x, y = a[i], b[j]
        if forced and (x.wanted or y.wanted):
            return 0.0 if x.wanted and y.wanted else NEVER
        key = x.key, y.key, x.slot == y.slot
        found = known.get(key)
        if found is None:
            found = known[key] = _cost(x, y, key[2], idle)
        return found

    alignment = cheapest(len(a), len(b), (TRAILING, TRAILING), cost)
    return {j: i for i, j in alignment.pairs}


def _cost(x: Entry, y: Entry, meet: bool, idle: frozenset[str]) -> float:
    """What it costs to hold two calls for one of the program."""
    if x.key == y.key:
        return 0.0 if meet else OTHER_POSITION
    one_line = x.lines == y.lines
    if x.op != y.op:
        if {x.op, y.op} == P2P_OPS:
            return MESSAGE if meet else NEVER
        return OTHER_OP if meet else NEVER
    if one_line:
        differ = [n for n, _, _ in _loops(x.made.stack, y.made.stack) if n not in idle]
        if differ:
            return OTHER_PASS
        return OTHER_POSITION if x.group == y.group else OTHER_GROUP
    return OTHER_LINE if meet else NEVER


def _loops(a: Stack, b: Stack) -> Iterable[tuple[str, str, str]]:
    return loop_evidence(a, b).differ
