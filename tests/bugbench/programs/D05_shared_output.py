"""Two all_gathers are in flight into one scratch tensor."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[list[float]]:
    keys, values = torch.full((4,), 1.0 + rank), torch.full((4,), 10.0 + rank)
    scratch = torch.empty(8)
    other = torch.empty(8) if world.fixed else scratch
    first = dist.all_gather_into_tensor(scratch, keys, async_op=True)  # BUG
    second = dist.all_gather_into_tensor(other, values, async_op=True)  # BUG
    first.wait()
    second.wait()
    return [scratch[::4].tolist(), other[::4].tolist()]


def CHECK(results: list[list[list[float]]]) -> None:
    assert [[[1.0, 2.0], [10.0, 11.0]]] * 2 == results
