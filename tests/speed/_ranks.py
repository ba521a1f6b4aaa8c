"""The body of a rank that Python's or torch's own tools start; it imports as little as it can."""

from __future__ import annotations

from typing import Any


def joined(rank: int, size: int, store: str) -> float:
    """Join a gloo group over a file, all_reduce once, leave."""
    import torch
    import torch.distributed as dist

    from tests.speed import _forked, functions

    torch.set_num_threads(1)
    _forked.join(rank, size, store)
    result = functions.one_all_reduce(rank)
    dist.destroy_process_group()
    return result


def sent(rank: int, size: int, store: str, queue: Any) -> None:
    """The same, with the result put into a queue."""
    queue.put((rank, joined(rank, size, store)))


def joined_once(rank: int, size: int, store: str) -> float:
    """Join only where this process has not yet, and stay; the rank is that of the first time."""
    import torch
    import torch.distributed as dist

    from tests.speed import _forked, functions

    if not dist.is_initialized():
        torch.set_num_threads(1)
        _forked.join(rank, size, store)
    return functions.one_all_reduce(dist.get_rank())
