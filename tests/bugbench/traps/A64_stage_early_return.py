"""Only the last pipeline stage has a loss; the first returns before the reductions over it."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "pp": 2}


def main(rank: Rank, world: Ground) -> float | None:
    from megatron.core import mpu

    hidden = torch.full((2,), float(rank.dp + 1))
    if mpu.is_pipeline_first_stage():
        dist.send(hidden * 2, dst=mpu.get_pipeline_model_parallel_next_rank())
        return None
    dist.recv(hidden, src=mpu.get_pipeline_model_parallel_prev_rank())
    loss = hidden.sum()
    dist.all_reduce(loss, group=mpu.get_data_parallel_group())
    tokens = torch.tensor(2.0)
    dist.all_reduce(tokens, group=rank.group("dp"))
    return (loss / tokens).item()


def CHECK(results: list[float | None]) -> None:
    assert [None, None, 3.0, 3.0] == results
