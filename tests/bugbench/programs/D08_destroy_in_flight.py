"""A temporary group is destroyed before the reduction on it has been waited for."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("use_after_destroy", ranks=(0, 1))


def main(rank: int, world: Ground) -> float:
    group = dist.new_group([0, 1])
    metric = torch.full((2,), 1.0 + rank)
    work = dist.all_reduce(metric, group=group, async_op=True)  # BUG
    if world.fixed:
        work.wait()
    dist.destroy_process_group(group)  # BUG
    work.wait()  # BUG
    return metric[0].item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
