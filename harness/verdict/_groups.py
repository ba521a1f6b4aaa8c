"""Creation of process groups: every rank, every group, in one order."""

from __future__ import annotations

from collections.abc import Mapping

from harness.verdict._cause import Cause, doing_all, ended_text, sides, waiting_text
from harness.verdict._deadlock import Wait
from harness.verdict._findings import Finding
from harness.verdict._history import History
from harness.verdict._rank_state import CreationSlot
from harness.verdict._text import ranks_text, site

RULE = (
    "every rank must make every group, in the same order, also the ranks that are not members "
    "(or all pass use_local_synchronization=True)"
)


def creation_causes(history: History, stuck: Mapping[int, list[Wait]]) -> list[Cause]:
    """Member lists that differ, and creations that an ended rank never made."""
    causes: list[Cause] = []
    for slots in history.creations.values():
        for index in sorted(slots):
            slot = slots[index]
            if slot.unlike:
                causes.append(lists_differ(history, slot))
            else:
                gone = [r for r in slot.missing() if _left(history, r)]
                if not gone:
                    continue
                causes.append(never_made(history, slot, gone))
            break
    return causes


def _left(history: History, rank: int) -> bool:
    state = history.ranks[rank]
    ended = state.ended
    return state.over and ended is not None and ended.how in ("returned", "skipped", "xfailed")


def lists_differ(history: History, slot: CreationSlot) -> Cause:
    """Two ranks asked for different members in the same creation."""
    by_list: dict[tuple[int, ...], list[int]] = {}
    for rank, creation in sorted(slot.calls.items()):
        by_list.setdefault(creation.ranks, []).append(rank)
    number = slot.index + 1
    told = [
        f"new_group({list(members)}) at {site(slot.calls[ranks[0]].stack)} on {ranks_text(ranks)}"
        for members, ranks in by_list.items()
    ]
    summary = f"group creation {number} differs: {told[0]}" + "".join(
        f", but {t}" for t in told[1:4]
    )
    sizes = sorted(by_list.values(), key=len)
    guilty = sizes[0] if len(sizes) == 2 and len(sizes[0]) < len(sizes[1]) else sorted(slot.calls)
    finding = Finding(
        "group_creation",
        summary,
        detail="members",
        index=number,
        op="new_group",
        ranks=tuple(guilty),
        sides=sides(history, guilty, slot.calls),
        evidence=(f"member lists: { {r: list(c.ranks) for r, c in sorted(slot.calls.items())} }",)
        if len(slot.calls) <= 8
        else (),
        hints=(RULE,),
    )
    times = sorted((c.time, c.rank) for c in slot.calls.values())
    first = slot.calls[times[0][1]].ranks
    time = next(t for t, r in times if slot.calls[r].ranks != first)
    return Cause(finding, time, frozenset(history.everyone))


def never_made(history: History, slot: CreationSlot, lacking: list[int]) -> Cause:
    """A rank left out a creation that others made."""
    number = slot.index + 1
    maker = min(slot.calls)
    creation = slot.calls[maker]
    waiting = [
        r
        for r in slot.calls
        if any(e is not None and e[1] is slot for e in history.ranks[r].threads.values())
    ]
    tail = waiting_text(waiting) if waiting else f"{ranks_text(slot.calls)} made it"
    summary = (
        f"group creation: {ranks_text(lacking)} never called new_group #{number} "
        f"({list(creation.ranks)}) at {site(creation.stack)}, and {doing_all(history, lacking)}; "
        f"{tail}"
    )
    finding = Finding(
        "group_creation",
        summary,
        detail="missing",
        index=number,
        op="new_group",
        ranks=tuple(sorted(lacking)),
        sides=sides(history, lacking, slot.calls),
        evidence=tuple(f"rank {r} {ended_text(history, r)}" for r in lacking[:4]),
        hints=(RULE,),
    )
    times = [e.time for r in lacking if (e := history.ranks[r].ended) is not None]
    made = max(c.time for c in slot.calls.values())
    return Cause(finding, min(times, default=made), frozenset(history.everyone))
