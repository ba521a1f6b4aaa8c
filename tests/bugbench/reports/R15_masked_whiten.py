"""slime #393: the last stage alone whitens, and reduces its statistics over the world."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"pp": 2}
EXPECT = Expect("missing_participant", ranks=(0,), text="dp")


def masked_whiten(
    values: torch.Tensor, mask: torch.Tensor, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    stats = torch.stack([(values * mask).sum(), (values**2 * mask).sum(), mask.sum()])
    dist.all_reduce(stats, group=group)  # BUG
    mean = stats[0] / stats[2]
    variance = stats[1] / stats[2] - mean**2
    return (values - mean) * torch.rsqrt(variance + 1e-8) * mask


def main(rank: Rank, world: Ground) -> list[float]:
    from megatron.core import mpu

    advantages = torch.tensor([1.0, 3.0, 100.0])
    if mpu.is_pipeline_last_stage():  # GUARD
        mask = torch.tensor([1.0, 1.0, 0.0])
        group = mpu.get_data_parallel_group(with_context_parallel=True) if world.fixed else None
        advantages = masked_whiten(advantages, mask, group)
    return advantages.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[1.0, 3.0, 100.0], [-1.0, 1.0, 0.0]] == results
