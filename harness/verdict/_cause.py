"""A candidate cause of what went wrong, and the words that every cause needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.record import Call, Creation, Stack
from harness.verdict._findings import Finding, GroupRef, Side
from harness.verdict._group_log import GroupLog, Slot
from harness.verdict._history import History
from harness.verdict._rank_state import CreationSlot, Open
from harness.verdict._text import call_text, creation_text, plain, ranks_text, site, verb


@dataclass(frozen=True, slots=True)
class Cause:
    """A finding that may be the cause or a consequence of another.

    ``time`` is when the fault became true, ``involved`` the ranks it had an effect on.
    """

    finding: Finding
    time: float
    involved: frozenset[int]


def group_ref(log: GroupLog) -> GroupRef:
    """The group as a finding names it."""
    return GroupRef(log.name, log.ranks)


def call_of(thing: Open, rank: int) -> Call | Creation | None:
    """The rank's own call in what it is blocked on."""
    if isinstance(thing, Slot | CreationSlot):
        return thing.calls.get(rank)
    return thing.call


def text_of(call: Call | Creation | None) -> str:
    """A call or a group creation as a user would write it."""
    if call is None:
        return "a call"
    return call_text(call) if isinstance(call, Call) else creation_text(call)


def number_text(thing: Open, history: History) -> str:
    """``call 3 of dp-cp [0, 1]`` for a collective, ``creation 1``, or nothing for p2p."""
    if isinstance(thing, Slot):
        return f"call {thing.index + 1} of {group_ref(thing.log)}"
    if isinstance(thing, CreationSlot):
        return f"group creation {thing.index + 1}"
    return ""


def blocked_in(history: History, rank: int) -> tuple[Stack, Open] | None:
    """The call the rank's main thread is in (or another thread's, if the main thread is free)."""
    state = history.ranks[rank]
    if state.ended is not None and state.over:
        return None
    waits = state.waits()
    if waits:
        return waits[0]
    return next((entry for entry in state.threads.values() if entry is not None), None)


def state_of(history: History, rank: int) -> str:
    """The rank's state in one word, as `Side` has it."""
    state = history.ranks[rank]
    if state.ended is not None:
        how = state.ended.how
        return {"failed": "raised", "xfailed": "skipped"}.get(how, how)
    return "waiting" if blocked_in(history, rank) is not None else "running"


def ended_text(history: History, rank: int) -> str:
    """How a rank ended, in words that follow its name: ``has returned``."""
    ended = history.ranks[rank].ended
    if ended is None:
        return "is still in user code"
    message = plain(ended.message)
    if ended.how == "returned":
        return "has returned"
    if ended.how == "died":
        return f"died ({message or 'its process ended'})"
    if ended.how in ("skipped", "xfailed", "failed"):
        name = {"skipped": "skip", "xfailed": "xfail", "failed": "fail"}[ended.how]
        return f'called pytest.{name}("{message}")'
    return f"raised {error_text(ended.error, ended.message)}"


def error_text(error: str, message: str) -> str:
    """``ValueError: bad row``."""
    text = plain(message)
    return f"{error or 'an error'}: {text}" if text else error or "an error"


def doing(history: History, rank: int) -> str:
    """What a rank does now, in words that follow its name: ``waits in barrier() at a.py:3``."""
    state = history.ranks[rank]
    if state.ended is not None:
        return ended_text(history, rank)
    entry = blocked_in(history, rank)
    if entry is None:
        return "is still in user code"
    return f"waits in {text_of(call_of(entry[1], rank))} at {site(entry[0])}"


def doing_all(history: History, ranks: Iterable[int]) -> str:
    """What several ranks do, those alike taken together: ``has returned``, or by rank."""
    by_text: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_text.setdefault(doing(history, rank), []).append(rank)
    if len(by_text) == 1:
        text, members = next(iter(by_text.items()))
        return text if len(members) == 1 else _plural(text)
    parts = []
    for text, members in by_text.items():
        parts.append(f"{ranks_text(members)} {text if len(members) == 1 else _plural(text)}")
    return "; ".join(parts)


def _plural(text: str) -> str:
    for one, many in (("has ", "have "), ("waits ", "wait "), ("is ", "are ")):
        if text.startswith(one):
            return many + text[len(one) :]
    return text


def waiting_text(waiting: Iterable[int], where: str = "there") -> str:
    """``rank 0 waits there``."""
    ranks = sorted(waiting)
    return f"{ranks_text(ranks)} {verb(ranks, 'waits', 'wait')} {where}"


def side(
    history: History,
    rank: int,
    *,
    call: Call | Creation | None = None,
    note: str = "",
    guilty: bool = False,
) -> Side:
    """What a rank was doing; at ``call`` if one is given, else where it is now."""
    state = state_of(history, rank)
    if call is not None:
        entry = blocked_in(history, rank)
        if state == "running" or (entry is not None and call_of(entry[1], rank) is not call):
            state = "past"
            if entry is not None:
                now = f"now {doing(history, rank)}"
                note = f"{note}; {now}" if note else now
        return Side(rank, state, text_of(call), note, call.stack, guilty, call.call)
    entry = blocked_in(history, rank)
    ended = history.ranks[rank].ended
    if ended is not None:
        said = "" if ended.how == "returned" else ended_text(history, rank)
        inside = history.ranks[rank].inside
        if ended.how == "died" and inside is not None:
            made = call_of(inside[1], rank)
            within, number = text_of(made), None if made is None else made.call
            return Side(rank, state, within, note or said, ended.stack or inside[0], guilty, number)
        return Side(rank, state, "", note or said, ended.stack, guilty)
    if entry is None:
        return Side(rank, state, "", note, (), guilty)
    stack, thing = entry
    said = note or number_text(thing, history)
    made = call_of(thing, rank)
    number = None if made is None else made.call
    return Side(rank, state, text_of(made), said, stack, guilty, number)


def sides(
    history: History,
    guilty: Iterable[int],
    calls: Mapping[int, Call] | Mapping[int, Creation] | None = None,
    notes: Mapping[int, str] | None = None,
) -> tuple[Side, ...]:
    """One side for every rank of the world, at ``calls`` where given."""
    at_fault = set(guilty)
    at = calls or {}
    said = notes or {}
    return tuple(
        side(history, r, call=at.get(r), note=said.get(r, ""), guilty=r in at_fault)
        for r in history.everyone
    )
