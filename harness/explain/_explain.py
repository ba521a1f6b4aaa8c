"""From the findings and the traces of a second run to the place where the ranks parted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.explain._explanation import Divergence, Explanation
from harness.explain._order import order_parting
from harness.explain._parting import Parting, differences, failure, parting, parting_before
from harness.explain._paths import Mark, Path, Spot
from harness.explain._show import shown
from harness.explain._source import function_at
from harness.record import P2P_OPS, Call, Ended, GroupMade, Record, Stack
from harness.verdict import Finding

MOST_DIFFERED = 3


def explain(finding: Finding, records: Sequence[Record], paths: Mapping[int, Path]) -> Explanation:
    """Where the ranks of a finding took different ways, from their traces in the same run."""
    changed = next((path.changed for path in paths.values() if path.changed), "")
    if changed:
        return Explanation(reason=f"{changed} was changed after its code had been imported")
    found = next(_candidates(finding, records, paths), None)
    if found is not None:
        return Explanation(shown(found, paths))
    places = differed(finding, paths)
    reason = _reason(finding, records, places, paths)
    return Explanation(reason=reason, differed=tuple(places))


def _reason(
    finding: Finding,
    records: Sequence[Record],
    places: Sequence[Divergence],
    paths: Mapping[int, Path],
) -> str:
    """Why no place is named."""
    if any(path.full for path in paths.values()):
        return "the ranks made too many steps in the second run to follow them all in time"
    for frame in (frame for side in finding.sides for frame in side.stack[:1]):
        if function_at(frame.file, frame.function, frame.line) is None:
            return f"the source of {frame.file} cannot be read"
    elsewhere = any(
        side.number is not None and side.number not in paths[side.rank].marks
        for side in finding.sides
        if side.rank in paths
    )
    if elsewhere:
        return "a call was made in another thread than the main one, which is not followed"
    if places and _messages_only(finding, records):
        return (
            "of a send and its receive none can be told to be the wrong one, for those who send and "
            "those who receive go different ways by design"
        )
    if not places:
        return (
            "in a second run all ranks took the same way through the functions on these stacks, "
            "as far as they came"
        )
    return "a second run showed no decision that sent the ranks to different calls"


def _candidates(
    finding: Finding, records: Sequence[Record], paths: Mapping[int, Path]
) -> Iterator[Parting]:
    """The partings that would explain the finding, the most telling first."""
    guilty = [r for r in finding.ranks if r in paths]
    others = [r for r in paths if r not in guilty]
    if finding.kind in ("rank_raised", "use_after_destroy"):
        yield from _raised(finding, guilty, others, records, paths)
    if finding.kind in ("rank_died", "straggler", "rank_raised"):
        yield from _ended(guilty, others, paths)
    if finding.kind == "misaligned_calls":
        yield from _shifted(finding, records, paths)
    numbers = {
        side.rank: side.number
        for side in finding.sides
        if side.number is not None and side.rank in paths
    }
    if _messages_only(finding, records):
        return
    made = [r for r in numbers if r not in guilty]
    for rank in made:
        for other in guilty:
            yield from _pair(rank, other, numbers, paths)
    if not made or len(guilty) > 1:
        for rank in numbers:
            for other in numbers:
                if rank != other:
                    yield from _pair(rank, other, numbers, paths)
    if finding.kind == "missing_participant":
        yield from _shifted(finding, records, paths)
    yield from order_parting(finding, records, paths)


def _messages_only(finding: Finding, records: Sequence[Record]) -> bool:
    """Whether the finding is about sends and receives alone."""
    numbers = {side.rank: side.number for side in finding.sides if side.number is not None}
    ops = {r.op for r in records if isinstance(r, Call) and numbers.get(r.rank) == r.call}
    return finding.kind == "unmatched_p2p" or (bool(ops) and ops <= P2P_OPS)


def _pair(
    rank: int, other: int, numbers: Mapping[int, int], paths: Mapping[int, Path]
) -> Iterator[Parting]:
    """Where the other rank left the way to the call that ``rank`` made."""
    mark = paths[rank].marks.get(numbers[rank])
    if mark is None:
        return
    found = parting(paths[rank], mark, paths[other])
    if found is not None:
        yield found


def _raised(
    finding: Finding,
    guilty: Sequence[int],
    others: Sequence[int],
    records: Sequence[Record],
    paths: Mapping[int, Path],
) -> Iterator[Parting]:
    ends = {r.rank: r for r in records if isinstance(r, Ended)}
    for rank in guilty:
        ended = ends.get(rank)
        if ended is not None:
            chain = _origin(paths[rank], ended.stack, ended.error)
        else:  # it is still in a call that it makes on its way out
            stack = next(side.stack for side in finding.sides if side.rank == rank)
            chain = _origin(paths[rank], stack, "")
        if chain is None:
            continue
        for other in others:
            found = failure(paths[rank], chain, paths[other])
            if found is not None:
                yield found


def _origin(path: Path, stack: Stack, error: str) -> tuple[Spot, ...] | None:
    """The innermost statement of the traceback that was followed."""
    for frame in stack:
        for chain in reversed(path.failures):
            context, point = chain[-1]
            visit = path.visits[context]
            step = visit.steps[point]
            if (
                (visit.file, visit.function.name) == (frame.file, frame.function)
                and step.line <= frame.line <= step.last
                and error in ("", visit.raised[point].error)
            ):
                return chain
    return None


def _ended(
    guilty: Sequence[int], others: Sequence[int], paths: Mapping[int, Path]
) -> Iterator[Parting]:
    """Where others left the way on which a rank came to where it is, or was last."""
    for rank in guilty:
        for other in others:
            found = parting_before(paths[rank], paths[rank].last, paths[other])
            if found is not None:
                yield found


def _shifted(
    finding: Finding, records: Sequence[Record], paths: Mapping[int, Path]
) -> Iterator[Parting]:
    """The first call on the group that one rank skipped while it made a later one of the other's."""
    sequences = _sequences(finding, records, paths)
    ranks = sorted(sequences, key=lambda r: (r in finding.ranks, r))
    for rank in ranks:
        for other in ranks:
            if rank == other:
                continue
            mine, theirs = sequences[rank], sequences[other]
            names = {mark.name: i for i, mark in enumerate(mine)}
            made = {mark.name for mark in theirs}
            if finding.kind == "missing_participant" and not made <= names.keys():
                continue  # more than one went another way: which of them is to blame?
            for place, mark in enumerate(mine[: len(theirs)]):
                later = names.get(theirs[place].name, -1)
                if mark.name not in made and later > place:
                    found = parting(paths[rank], mark, paths[other])
                    if found is not None:
                        yield found
                    break


def _sequences(
    finding: Finding, records: Sequence[Record], paths: Mapping[int, Path]
) -> dict[int, list[Mark]]:
    """The collectives of each rank on the finding's group, as their traces have them."""
    if finding.group is None:
        return {}
    keys = {
        (r.rank, r.key)
        for r in records
        if isinstance(r, GroupMade) and r.ranks == finding.group.ranks
    }
    found: dict[int, list[Mark]] = {}
    for record in records:
        if isinstance(record, Call) and (record.rank, record.group) in keys:
            way = paths.get(record.rank)
            mark = None if way is None else way.marks.get(record.call)
            if mark is not None and record.op not in ("send", "recv"):
                found.setdefault(record.rank, []).append(mark)
    return found


def differed(finding: Finding, paths: Mapping[int, Path]) -> list[Divergence]:
    """Places at which ranks decided differently, the latest first, each line once."""
    guilty = [r for r in finding.ranks if r in paths]
    others = [r for r in paths if r not in guilty] or guilty[1:]
    if not guilty or not others:
        return []
    first, second = paths[others[0]], paths[guilty[0]]
    found: dict[tuple[str, int], Divergence] = {}
    for parted in reversed(list(differences(first, second))):
        visit = first.visits[parted.context]
        place = visit.file, visit.steps[parted.point].line
        if place not in found:
            found[place] = shown(parted, paths)
        if len(found) >= MOST_DIFFERED:
            break
    return list(found.values())
