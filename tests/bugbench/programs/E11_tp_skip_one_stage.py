"""In the last layer of the last stage one tensor-parallel rank leaves out the all_reduce."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"tp": 2, "pp": 2}
EXPECT = Expect("missing_participant", ranks=(3,), text="tp")
LAYERS = 3


def row_parallel(x: torch.Tensor, weight: float, *, skip: bool) -> torch.Tensor:
    from megatron.core import mpu

    out = x * weight
    if not skip:  # GUARD
        dist.all_reduce(out, group=mpu.get_tensor_model_parallel_group())  # BUG
    return out


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    x = torch.ones(4)
    if not mpu.is_pipeline_first_stage():
        dist.recv(x, src=mpu.get_pipeline_model_parallel_prev_rank())
    for layer in range(LAYERS):
        # Its slice of the head is empty, so there is nothing to add up, it thinks.
        empty = mpu.is_pipeline_last_stage() and layer == LAYERS - 1 and rank.tp == 1
        x = row_parallel(x, 0.0 if empty else 1.0, skip=empty and not world.fixed)
    if not mpu.is_pipeline_last_stage():
        dist.send(x, dst=mpu.get_pipeline_model_parallel_next_rank())
    return x[0].item()


def CHECK(results: list[float]) -> None:
    assert [8.0, 8.0, 32.0, 32.0] == results
