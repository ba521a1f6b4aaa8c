"""Only the last stage reduces its loss, and the group argument is forgotten."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2, "pp": 2}
EXPECT = Expect("missing_participant", ranks=(0, 1), text="dp")


def mean_over_replicas(loss: torch.Tensor, group: dist.ProcessGroup | None = None) -> float:
    dist.all_reduce(loss, group=group)  # BUG
    return loss.item() / 2


def main(rank: Rank, world: Ground) -> float | None:
    from megatron.core import mpu

    if not mpu.is_pipeline_last_stage():  # GUARD
        return None
    loss = torch.tensor([float(rank.dp + 1)])
    if world.fixed:
        return mean_over_replicas(loss, mpu.get_data_parallel_group())
    return mean_over_replicas(loss)


def CHECK(results: list[float | None]) -> None:
    assert [None, None, 1.5, 1.5] == results
