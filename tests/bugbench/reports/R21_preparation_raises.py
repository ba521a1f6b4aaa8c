"""llm-foundry #749: data preparation raises on one rank while the other waits for it."""

import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(0,), text="ValueError: bad row")
ROWS = ["a,1", "b,2", "c"]


def prepare(rows: list[str], *, skip_bad: bool) -> dict[str, int]:
    table = {}
    for row in rows:
        name, comma, count = row.partition(",")
        if not comma:
            if skip_bad:
                continue
            raise ValueError(f"bad row {row!r}")  # BUG
        table[name] = int(count)
    return table


def main(rank: Rank, world: Ground) -> int:
    table = {}
    if rank == 0:  # GUARD
        table = prepare(ROWS, skip_bad=world.fixed)
    dist.barrier()
    return len(table)


def CHECK(results: list[int]) -> None:
    assert [2, 0] == results
