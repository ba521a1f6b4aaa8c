"""Runs made by hand for the tests of JSON, traces and pictures."""

from __future__ import annotations

from typing import Any

from harness.explain import Divergence, Explanation, Way
from harness.record import (
    Call,
    Creation,
    Destruction,
    Ended,
    Failed,
    Finished,
    Frame,
    GroupMade,
    Issued,
    NativeWait,
    NonMember,
    Record,
    Started,
    TensorInfo,
    ThreadEnded,
    Touched,
    Value,
    Waiting,
)
from harness.report import Run
from harness.verdict import Finding, GroupRef, Side

SITE = Frame("/repo/loss.py", 38, "loss", "dist.all_reduce(x)", (("i", "3"),), ((37, 0),), True)
CALLER = Frame("/repo/train.py", 7, "main")
STACK = (SITE, CALLER)


def call(rank: int, number: int, index: int, time: float, **fields: Any) -> Call:
    """A call of ``rank`` on the world."""
    usual: dict[str, Any] = {
        "thread": 0,
        "group": "0",
        "op": "all_reduce",
        "reduce_op": "SUM",
        "root": None,
        "peer": None,
        "tag": None,
        "inputs": (TensorInfo("float32", (2, 3)),),
        "outputs": (),
        "input_splits": None,
        "output_splits": None,
        "async_op": False,
        "stack": STACK,
    }
    return Call(rank=rank, call=number, index=index, time=time, **(usual | fields))


def skipped() -> Run:
    """Two ranks: rank 1 leaves out the second of four calls, so the others are out of step."""
    records: list[Record] = [GroupMade(rank, "0", (0, 1), "world") for rank in range(2)]
    records += [Started(0, 10.0), Started(1, 10.0)]
    for index in range(4):
        records.append(call(0, index, index, 10.1 + index))
        if index < 3:
            records += [call(1, index, index, 10.2 + index), Finished(1, index, 0, 10.3 + index)]
            records.append(Finished(0, index, 0, 10.4 + index))
    records.append(Ended(1, "returned", 14.0))
    sides = (
        Side(0, "past", "all_reduce(SUM, float32[2, 3])", "", STACK, number=1),
        Side(1, "returned", "all_reduce(SUM, float32[2, 3])", "", STACK, guilty=True, number=1),
    )
    finding = Finding(
        "missing_participant",
        "rank 1 never made call 2",
        group=GroupRef("world", (0, 1)),
        index=2,
        op="all_reduce",
        ranks=(1,),
        sides=sides,
        evidence=("counts",),
        hints=("look at the guard",),
        secondary=("closed",),
    )
    ways = (Way((0,), "True", (("n", "3"),)), Way((1,), "False", (("n", "0"),)))
    place = Divergence("/repo/loss.py", 37, "loss", "if n:", "if", ways, "pass 2")
    return Run(
        findings=(finding,),
        explanation=Explanation(place, differed=(place,), seconds=0.5),
        world_size=2,
        layout={"dp": 2, "cp": 1, "tp": 1, "pp": 1, "ep": 1},
        records=tuple(records),
        left_out={1: 7},
        began=10.0,
        ended=15.0,
        test="tests/test_loss.py::test_it",
        function="step",
        output=({"stdout": "hello\n", "stderr": ""}, {"stdout": "\ud800"}),
    )


def everything() -> Run:
    """A run with a record of every kind, and values in every field."""
    made = call(
        0,
        2,
        5,
        1.25,
        op="all_to_all",
        root=1,
        peer=0,
        tag=4,
        outputs=(TensorInfo("int64", (), False, 1, 2, 3, 4, False, 9),),
        input_splits=(1, 2),
        output_splits=(),
        async_op=None,
        from_python=False,
        label="loss",
        during="ValueError: no",
        held="tensor",
        raised_at=(CALLER,),
    )
    records: tuple[Record, ...] = (
        GroupMade(0, "k", (0, 1)),
        Creation(0, 0, 0, 0, (0, 1), True, STACK, 1.0),
        Destruction(0, 1, 1, "", (), 1.1),
        made,
        Waiting(0, 2, 0, STACK, 1.3),
        Finished(0, 2, 0, 1.4),
        Issued(0, 3, 0, 1.5),
        Failed(0, 4, 0, "RuntimeError", "closed", 1.6),
        Touched(0, 2, 0, "written", "add_", STACK, 1.7),
        NonMember(0, 5, 0, "barrier", STACK, 1.8),
        Value(0, 6, 0, "expect", "mean", "dp", "d", "t", "is 1, not 2", STACK, 1.9),
        NativeWait(0, (), 2.0),
        ThreadEnded(0, 1, 2.1),
        Started(1, 0.5),
        Ended(1, "raised", 2.2, "ValueError", "bad", "Traceback", STACK, 0, (1, 2)),
    )
    return Run(findings=(Finding("deadlock", "x"),), world_size=2, records=records)
