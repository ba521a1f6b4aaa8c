"""Values that user code had checked: wrong ones, ones that differ, ones that were written to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.record import Value
from harness.verdict._cause import Cause, group_ref, side
from harness.verdict._findings import Finding, GroupRef, Side
from harness.verdict._history import History
from harness.verdict._sites import lines
from harness.verdict._text import plain, ranks_text, site

KINDS = {"expect": "value_mismatch", "unchanged": "mutated_value"}
SYMPTOMS = frozenset(KINDS.values())
"""A wrong value says that something happened before, which may be found too."""


def value_causes(history: History) -> list[Cause]:
    """Checked values that are wrong, by themselves or beside those of other ranks."""
    return [*_wrong(history), *_unlike(history)]


def _wrong(history: History) -> list[Cause]:
    found: dict[tuple[object, ...], dict[int, Value]] = {}
    for state in history.ranks:
        for value in state.values:
            if value.kind in KINDS and value.wrong:
                like = (value.kind, value.name, lines(value.stack))
                found.setdefault(like, {}).setdefault(state.rank, value)
    causes = []
    for by_rank in found.values():
        ranks = sorted(by_rank)
        value = by_rank[ranks[0]]
        if value.kind == "expect":
            head = f'wrong value: "{value.name}" on {ranks_text(ranks)} is {plain(value.wrong)}'
        else:
            head = (
                f'value written to: "{value.name}", which was to stay unchanged, is not what it '
                f"was on {ranks_text(ranks)}: {plain(value.wrong)}"
            )
        finding = Finding(
            KINDS[value.kind],
            f"{head}, at {site(value.stack)}",
            ranks=tuple(ranks),
            sides=_sides(history, by_rank, ranks, {r: v.wrong for r, v in by_rank.items()}),
            evidence=tuple(f"rank {r}: {by_rank[r].wrong}" for r in ranks[:8]),
        )
        time = min(v.time for v in by_rank.values())
        causes.append(Cause(finding, time, frozenset(ranks)))
    return causes


def _unlike(history: History) -> list[Cause]:
    checks: dict[tuple[str, str], dict[int, list[Value]]] = {}
    for state in history.ranks:
        for value in state.values:
            if value.kind == "expect_same":
                of_name = checks.setdefault((value.over, value.name), {})
                of_name.setdefault(state.rank, []).append(value)
    causes = []
    for (over, name), by_rank in sorted(checks.items()):
        for members in _groups(history, over):
            made = {r: by_rank.get(r, []) for r in members}
            cause = _first_unlike(history, over, name, made)
            if cause is None and history.all_over:
                cause = _fewer(history, over, name, made)
            if cause is not None:
                causes.append(cause)
    return causes


def _groups(history: History, over: str) -> list[tuple[int, ...]]:
    """The groups of the grid that go by this name."""
    if over == "world":
        return [history.everyone]
    of_grid = {
        log.ranks
        for log in history.groups.values()
        if log.name == over and log.key.startswith("layout-")
    }
    others = {log.ranks for log in history.groups.values() if log.name == over}
    return sorted(of_grid or others)


def _first_unlike(
    history: History, over: str, name: str, made: dict[int, list[Value]]
) -> Cause | None:
    for k in range(min(map(len, made.values()))):
        at = {rank: values[k] for rank, values in made.items()}
        counts = Counter(value.digest for value in at.values())
        if len(counts) == 1:
            continue
        (usual, most), *rest = counts.most_common()
        majority = most > len(at) / 2 and most > rest[0][1]
        guilty = [r for r, v in at.items() if not majority or v.digest != usual]
        texts: dict[str, list[int]] = {}
        for rank, value in at.items():
            texts.setdefault(plain(value.text, 80), []).append(rank)
        told = ", ".join(f"{text} on {ranks_text(ranks)}" for text, ranks in texts.items())
        which = f" (check {k + 1})" if k else ""
        ref = GroupRef(over, tuple(at))
        finding = Finding(
            "value_mismatch",
            f'values differ: "{name}"{which} is not the same on all of {ref}: {told}, at '
            f"{site(at[guilty[0]].stack)}",
            detail="same",
            group=ref,
            ranks=tuple(guilty),
            sides=_sides(history, at, guilty, {r: v.text for r, v in at.items()}),
            evidence=tuple(f"rank {r}: {v.text}" for r, v in list(at.items())[:8]),
        )
        time = max(value.time for value in at.values())
        return Cause(finding, time, frozenset(at))
    return None


def _fewer(history: History, over: str, name: str, made: dict[int, list[Value]]) -> Cause | None:
    """A rank came to the check less often: what it was compared with is not what was meant."""
    most = max(map(len, made.values()))
    guilty = [r for r, values in made.items() if len(values) < most]
    if not guilty:
        return None
    counts = ", ".join(f"rank {r} {len(values)}" for r, values in made.items())
    latest = {r: values[-1] for r, values in made.items() if values}
    value = next(iter(latest.values()))
    log = next((g for g in history.groups.values() if g.ranks == tuple(made)), None)
    finding = Finding(
        "value_mismatch",
        f'checks left out: "{name}" at {site(value.stack)} was not checked as often on all of '
        f"{over} {list(made)}: {counts}",
        level="warning",
        detail="fewer",
        group=group_ref(log) if log is not None else GroupRef(over, tuple(made)),
        ranks=tuple(guilty),
        sides=_sides(history, latest, guilty, {}),
    )
    return Cause(finding, value.time, frozenset(made))


def _sides(
    history: History, values: dict[int, Value], guilty: Sequence[int], notes: dict[int, str]
) -> tuple[Side, ...]:
    found = []
    for rank in history.everyone:
        at = values.get(rank)
        now = side(history, rank, guilty=rank in guilty)
        if at is None:
            found.append(now)
            continue
        call = f'{at.kind}("{at.name}")'
        note = plain(notes.get(rank, ""))
        found.append(Side(rank, now.state, call, note, at.stack, rank in guilty))
    return tuple(found)
