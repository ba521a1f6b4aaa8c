"""A bucket is pointed at other memory while the reduction of the old one is in flight."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("buffer_hazard", ranks=(0, 1))


def main(rank: int, world: Ground) -> list[float]:
    pool = torch.full((2, 16), 1.0 + rank)
    pool[1] = 0.0
    bucket, spare = pool[0], pool[1]
    work = dist.all_reduce(bucket, async_op=True)  # BUG
    if world.fixed:
        work.wait()
    bucket.set_(spare)  # type: ignore[call-overload]  # BUG
    work.wait()
    return [pool[0, 0].item(), bucket[0].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 0.0], [3.0, 0.0]] == results
