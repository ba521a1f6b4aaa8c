"""Objects whose pickles differ in size from rank to rank are gathered and broadcast."""

from typing import Any

import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


def main(rank: int, world: Ground) -> tuple[Any, ...]:
    mine = {"rank": int(rank), "text": "token " * (1 if rank == 0 else 500)}
    everyone: list[Any] = [None, None]
    dist.all_gather_object(everyone, mine)
    at_first: list[Any] | None = [None, None] if rank == 0 else None
    dist.gather_object(list(range(10 ** (1 + rank))), at_first, dst=0)
    config = [{"lr": 1e-3, "layers": [4] * 20}] if rank == 0 else [None]
    dist.broadcast_object_list(config, src=0)
    sizes = [len(each) for each in at_first] if at_first else []
    return [len(each["text"]) for each in everyone], sizes, config[0]


def CHECK(results: list[tuple[Any, ...]]) -> None:
    config = {"lr": 1e-3, "layers": [4] * 20}
    assert [([6, 3000], [10, 100], config), ([6, 3000], [], config)] == results
