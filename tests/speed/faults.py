"""Faulty programs, one of each kind whose time to the verdict is taken; run in ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from harness import Rank


def skip(rank: Rank) -> None:
    """The last rank leaves the second call out and returns."""
    dist.all_reduce(torch.ones(4))
    if rank != rank.world_size - 1:
        dist.all_reduce(torch.ones(4))


def other_op(rank: Rank) -> None:
    """The last rank meets an all_reduce with a barrier."""
    if rank == rank.world_size - 1:
        dist.barrier()
    else:
        dist.all_reduce(torch.ones(4))


def other_group(rank: Rank) -> None:
    """The first rank reduces over its cp group where all others reduce over dp."""
    dist.all_reduce(torch.ones(4), group=rank.group("cp" if rank == 0 else "dp"))


def cycle(rank: Rank) -> None:
    """Ranks 1 and 2 take cp before dp, so 0 waits for 2, 2 for 3, 3 for 1 and 1 for 0."""
    for name in ("cp", "dp") if rank in (1, 2) else ("dp", "cp"):
        dist.all_reduce(torch.ones(4), group=rank.group(name))


def raises(rank: Rank) -> None:
    """The last rank raises where the others reduce."""
    if rank == rank.world_size - 1:
        raise ValueError("a bad row")
    dist.all_reduce(torch.ones(4))


PROGRAMS: dict[str, tuple[Callable[[Rank], None], tuple[str, ...]]] = {
    "skip": (skip, ("missing_participant",)),
    "other_op": (other_op, ("call_mismatch",)),
    "other_group": (other_group, ("group_mismatch", "missing_participant")),
    "cycle": (cycle, ("deadlock",)),
    "raises": (raises, ("rank_raised",)),
}
"""Each program with the kinds that its verdict may be of."""
