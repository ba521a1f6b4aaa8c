"""On a dp2 × cp2 grid one of the two data-parallel groups makes a reduction more."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "cp": 2}


def main(rank: Rank, world: Ground) -> float:
    from megatron.core import mpu

    group = mpu.get_data_parallel_group()
    tokens = torch.tensor([float(rank + 1)])
    dist.all_reduce(tokens, group=group)
    if mpu.get_context_parallel_rank() == 0:
        # Only these hold the first token of each sequence.
        first = torch.ones(3)
        dist.all_reduce(first, group=group)
        tokens += first[0]
    dist.all_reduce(tokens, group=mpu.get_data_parallel_group(with_context_parallel=True))
    return tokens.item()


def CHECK(results: list[float]) -> None:
    assert [24.0] * 4 == results
