"""The calls that a rank of the soak makes, and what each must give. Runs in a rank and outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.layout import Layout, Rank
from tests.soak._plan import Case, Op

if TYPE_CHECKING:
    import torch


def value(rank: int, step: int) -> float:
    """What a rank brings to its call ``step``."""
    return float(7 * rank + 3 * step + 1)


def perform(rank: Rank, op: Op, step: int) -> list[float]:
    """Make one call on real tensors; the values that came of it."""
    import torch
    import torch.distributed as dist

    group = rank.group(op.group)
    members = dist.get_process_group_ranks(group)
    mine = torch.full((op.size,), value(rank, step))
    if op.name == "all_reduce":
        dist.all_reduce(mine, group=group)
    elif op.name == "broadcast":
        dist.broadcast(mine, src=members[op.root % len(members)], group=group)
    elif op.name == "all_gather":
        parts = [torch.zeros(op.size) for _ in members]
        dist.all_gather(parts, mine, group=group)
        return [_only(part) for part in parts]
    elif op.name == "barrier":
        dist.barrier(group=group)
        return []
    elif len(members) > 1:
        place = members.index(int(rank))
        after, before = members[(place + 1) % len(members)], members[place - 1]
        theirs = torch.zeros(op.size)
        work = dist.isend(mine, dst=after, group=group)
        dist.recv(theirs, src=before, group=group)
        assert work is not None
        work.wait()
        mine = theirs
    return [_only(mine)]


def expected(case: Case, rank: int) -> list[list[float]]:
    """What a rank of a world without a fault returns."""
    layout = Layout(case.dp, case.cp)
    return [
        _result(op, step, rank, layout.group_of(op.group, rank)) for step, op in enumerate(case.ops)
    ]


def _result(op: Op, step: int, rank: int, members: Sequence[int]) -> list[float]:
    brought = [value(member, step) for member in members]
    if op.name == "all_reduce":
        return [sum(brought)]
    if op.name == "broadcast":
        return [brought[op.root % len(members)]]
    if op.name == "all_gather":
        return brought
    if op.name == "barrier":
        return []
    return [brought[members.index(rank) - 1]]


def _only(tensor: torch.Tensor) -> float:
    """The value that all elements have; not a number if they differ."""
    low, high = tensor.min().item(), tensor.max().item()
    return low if low == high else float("nan")
