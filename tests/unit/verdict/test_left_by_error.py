"""A call that all have made, which one rank leaves by an error while the others stay in it."""

from __future__ import annotations

import pytest

from harness.record import Call, Ended, Failed, Frame, GroupMade, Record, Started
from harness.verdict import Judge

STACK = (Frame("train.py", 7, "step", "dist.barrier()"),)


def _call(rank: int) -> Call:
    return Call(
        rank, 0, 0, "0", 0, "barrier", None, None, None, None, (), (), None, None, False, STACK, 1.0
    )


@pytest.mark.parametrize("raises", [True, False])
def test_the_rank_that_left_is_at_fault_and_not_those_that_are_late(raises: bool) -> None:
    """At the deadline the error is the cause; where nobody raised, those in the call are late."""
    judge = Judge(3)
    records: list[Record] = [GroupMade(0, "0", (0, 1, 2), "world")]
    records += [Started(rank, 0.0) for rank in range(3)]
    records += [_call(rank) for rank in range(3)]
    if raises:
        records.append(Failed(1, 0, 0, "RuntimeError", "socket: Too many open files", 2.0))
        records.append(
            Ended(1, "raised", 2.0, "RuntimeError", "socket: Too many open files", inside=0)
        )
    for record in records:
        judge.add(record)

    assert not judge.fault()
    (finding,) = judge.findings(deadline=True)
    if raises:
        assert ("rank_raised", (1,)) == (finding.kind, finding.ranks)
        assert "Too many open files" in finding.summary
    else:
        assert ("straggler", (0, 1, 2)) == (finding.kind, finding.ranks)
