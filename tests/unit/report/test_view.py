"""What a page draws of a run: columns, gaps, marks, the cycle of waits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.record import Creation, Ended, Failed, Finished, GroupMade, Record, Touched
from harness.report import Run
from harness.report._view import view_of
from harness.verdict import Finding, GroupRef, Side
from tests.unit.report.runs import STACK, call, skipped

RANK, COLUMN, BEGIN, END, STATE, COLOUR, MEETING, RECORD, TEXT, MARK, WAITS = range(11)


def _columns(view: dict[str, Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for block in view["blocks"]:
        found.setdefault(block[RANK], []).append(block[COLUMN])
    return found


def _world(*records: Record, ranks: int = 2, **fields: Any) -> Run:
    members = tuple(range(ranks))
    groups = tuple(GroupMade(rank, "0", members, "world") for rank in members)
    return Run(world_size=ranks, records=groups + records, ended=9.0, **fields)


def test_a_skipped_call_leaves_its_column_empty() -> None:
    """What came after it stands where it belongs, though it met the call before."""
    view = view_of(skipped())
    assert _columns(view) == {0: [0, 1, 2, 3], 1: [0, 2, 3]}
    (gap,) = view["gaps"]
    assert (gap["rank"], gap["column"], gap["op"]) == (1, 1, "all_reduce")
    met = {block[MEETING]: [] for block in view["blocks"]}  # type: ignore[var-annotated]
    for block in view["blocks"]:
        met[block[MEETING]].append(block[COLUMN])
    assert sorted(met.values()) == [[0, 0], [1, 2], [2, 3], [3]]


def test_states_of_ranks_and_blocks() -> None:
    """The last call of rank 0 is open and waits for rank 1; rank 1 has returned and is at fault."""
    view = view_of(skipped())
    last = [block for block in view["blocks"] if block[RANK] == 0][-1]
    assert (last[STATE], last[END], last[WAITS]) == ("open", None, [1])
    assert [(lane["state"], lane["guilty"]) for lane in view["lanes"]] == [
        ("waiting", False),
        ("returned", True),
    ]
    assert view["lanes"][1]["left_out"] == 7
    assert view["lanes"][0]["place"] == "dp 0"


def test_calls_that_meet_share_a_column() -> None:
    """A rank that has made other calls before pushes the meeting to the right."""
    dp = GroupMade(0, "dp", (0,), "dp")
    run = _world(
        dp,
        call(0, 0, 0, 1.0, group="dp"),
        call(0, 1, 1, 1.1, group="dp"),
        call(0, 2, 0, 1.2),
        call(1, 0, 0, 1.0),
    )
    assert _columns(view_of(run)) == {0: [0, 1, 2], 1: [2]}


def test_another_order_is_no_endless_search() -> None:
    """Ranks that meet crosswise are placed one after another."""
    other = [GroupMade(rank, "b", (0, 1), "b") for rank in range(2)]
    run = _world(
        *other,
        call(0, 0, 0, 1.0, async_op=True),
        call(0, 1, 0, 1.1, group="b"),
        call(1, 0, 0, 1.2, group="b", async_op=True),
        call(1, 1, 0, 1.3),
    )
    assert _columns(view_of(run)) in ({0: [0, 1], 1: [1, 2]}, {0: [0, 1], 1: [1, 2]})


def test_the_gap_of_a_subgroup_stands_after_what_was_done_alike() -> None:
    """Rank 1 skips its dp call between calls on groups of its own: the gap is between them."""
    records: list[Record] = []
    for rank in range(2):
        records += [
            GroupMade(rank, "dp", (0, 1), "dp"),
            GroupMade(rank, f"tp{rank}", (rank,), "tp"),
        ]
        numbers = iter(range(9))
        for step in range(3):
            records.append(call(rank, next(numbers), step, 1.0 + step, group=f"tp{rank}"))
            if (rank, step) != (1, 1):
                index = step if rank == 0 or step < 1 else step - 1
                records.append(call(rank, next(numbers), index, 1.5 + step, group="dp"))
    finding = Finding(
        "missing_participant",
        "skip",
        group=GroupRef("dp", (0, 1)),
        index=2,
        op="all_reduce",
        ranks=(1,),
        sides=(Side(0, "past", number=3), Side(1, "waiting", guilty=True, number=3)),
    )
    view = view_of(_world(*records, findings=(finding,)))
    assert _columns(view) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 4, 5]}
    assert view["gaps"][0]["column"] == 3


def test_a_rank_that_raised_has_a_gap_at_its_end() -> None:
    """The call that the others wait in is missing on it."""
    finding = Finding(
        "rank_raised",
        "rank 1 raised",
        group=GroupRef("world", (0, 1)),
        index=1,
        op="all_reduce",
        ranks=(1,),
        sides=(Side(0, "waiting", number=0), Side(1, "raised", guilty=True)),
    )
    ended = Ended(1, "raised", 2.0, "ValueError", "bad row")
    view = view_of(_world(call(0, 0, 0, 1.0), ended, findings=(finding,)))
    assert [(gap["rank"], gap["column"]) for gap in view["gaps"]] == [(1, 0)]
    assert view["lanes"][1]["text"] == "ValueError: bad row"


@pytest.mark.parametrize("kind", ["call_mismatch", "misaligned_calls", "work_not_waited"])
def test_other_faults_have_no_gap(kind: str) -> None:
    """Only what is missing is drawn as missing; sides are marked instead."""
    run = skipped()
    finding = dataclasses.replace(run.findings[0], kind=kind)
    view = view_of(dataclasses.replace(run, findings=(finding,)))
    assert view["gaps"] == []
    marks = {(b[RANK], b[RECORD]): b[MARK] for b in view["blocks"] if b[MARK]}
    assert sorted(marks.values()) == ["guilty", "side"]


def test_the_cycle_of_a_deadlock() -> None:
    """Two ranks that each send to the other first wait for each other."""
    message = {"op": "send", "reduce_op": None, "tag": 0}
    records = (call(0, 0, 0, 1.0, peer=1, **message), call(1, 0, 0, 1.1, peer=0, **message))
    sides = (Side(0, "waiting", guilty=True, number=0), Side(1, "waiting", guilty=True, number=0))
    finding = Finding("deadlock", "ring", ranks=(0, 1), sides=sides)
    view = view_of(_world(*records, findings=(finding,)))
    assert view["cycle"] == [[2, 1], [3, 0]]


def test_a_send_meets_its_receive() -> None:
    """Messages of one stream with one number belong together."""
    message = {"reduce_op": None, "tag": 3}
    view = view_of(
        _world(
            call(0, 0, 0, 1.0, op="send", peer=1, **message),
            call(1, 0, 0, 1.1, op="recv", peer=0, **message),
            call(1, 1, 0, 1.2, op="recv", peer=None, **message),
        )
    )
    assert [block[MEETING] for block in view["blocks"]] == [0, 0, -1]


def test_creations_are_met_by_number_and_have_a_colour_of_their_own() -> None:
    """``new_group`` is a call of the whole world, in no group's colour."""
    made = [Creation(rank, 0, 0, 0, (0, 1), False, STACK, 1.0) for rank in range(2)]
    view = view_of(_world(*made, call(0, 1, 0, 2.0), call(1, 1, 0, 2.0)))
    assert [block[MEETING] for block in view["blocks"]] == [0, 0, 1, 1]
    assert [colour["slot"] for colour in view["colours"]] == [7, 0]


def test_failed_and_flying_calls() -> None:
    """A call that raised, and one that nobody waited for."""
    view = view_of(
        _world(
            call(0, 0, 0, 1.0),
            Failed(0, 0, 0, "RuntimeError", "closed", 1.5),
            call(0, 1, 1, 2.0, async_op=True),
            Ended(0, "returned", 3.0),
        )
    )
    assert [block[STATE] for block in view["blocks"]] == ["failed", "flying"]


def test_events_follow_the_call_before_them() -> None:
    """A buffer written in flight is shown behind the call."""
    view = view_of(
        _world(
            call(0, 0, 0, 1.0),
            Touched(0, 0, 0, "written", "add_", STACK, 1.2),
            Finished(0, 0, 0, 1.5),
        )
    )
    (event,) = view["events"]
    assert (event["rank"], event["column"]) == (0, 0)
    assert event["text"] == "buffer written by add_ while in flight"


def test_a_grid_in_another_order_is_not_guessed() -> None:
    """Where groups show that ranks are laid out otherwise, no place in the grid is named."""
    layout = {"dp": 2, "cp": 2, "tp": 1, "pp": 1, "ep": 1}
    usual = GroupMade(0, "cp", (0, 1), "cp")
    other = GroupMade(0, "cp", (0, 2), "cp")
    places = [
        [lane["place"] for lane in view_of(_world(made, ranks=4, layout=layout))["lanes"]]
        for made in (usual, other)
    ]
    assert places == [["dp 0 cp 0", "dp 0 cp 1", "dp 1 cp 0", "dp 1 cp 1"], [""] * 4]
