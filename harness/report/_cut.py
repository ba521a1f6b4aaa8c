"""Runs cut to a bearable size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from harness.record import GroupMade
from harness.report._run import Run


def cut(run: Run, most: int) -> Run:
    """The run with about ``most`` records: the last ones of each rank, and all of its groups."""
    counted = Counter(record.rank for record in run.records if not isinstance(record, GroupMade))
    if counted.total() <= most:
        return run
    each = max(1, most // max(1, len(counted)))
    drop = {rank: max(0, number - each) for rank, number in counted.items()}
    left_out = dict(run.left_out)
    for rank, number in drop.items():
        if number:
            left_out[rank] = left_out.get(rank, 0) + number
    kept = []
    for record in run.records:
        if not isinstance(record, GroupMade) and drop[record.rank] > 0:
            drop[record.rank] -= 1
        else:
            kept.append(record)
    return replace(run, records=tuple(kept), left_out=left_out)
