"""A rank whose share of the batch is empty returns before the reduction; only one input does that."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="call 2")


def masked_mean(values: torch.Tensor, mask: torch.Tensor, early: bool) -> float:
    kept = values[mask]
    if early and kept.numel() == 0:  # GUARD
        return 0.0
    stats = torch.stack([kept.sum(), torch.tensor(float(kept.numel()))])
    dist.all_reduce(stats)  # BUG
    return (stats[0] / stats[1]).item()


def main(rank: int, world: Ground) -> list[float]:
    masks = [[1, 1, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0]]
    values = torch.arange(4.0)
    means = []
    mine = slice(2 * rank, 2 * rank + 2)
    for step, mask in enumerate(masks):
        local = torch.tensor(mask, dtype=torch.bool)[mine]
        mean = masked_mean(values[mine], local, early=not world.fixed)
        print(f"step {step}: {mean:.3f}")
        means.append(mean)
    return means


def CHECK(results: list[list[float]]) -> None:
    for means in results:
        assert torch.allclose(torch.tensor([4 / 3, 0.5, 1.5]), torch.tensor(means))
