"""slime #2114: rewards are shaped in the very tensors that are logged as the KL."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("mutated_value", ranks=(0, 1), text="kl")


def shape_rewards(kl: list[torch.Tensor], reward: float) -> list[torch.Tensor]:
    for sequence in kl:
        sequence *= 0.5  # BUG
        sequence[-1] += reward
    return kl


def main(rank: Rank, world: Ground) -> float:
    kl = [torch.tensor([0.1, 0.2])]
    harness.unchanged("kl", kl)  # BUG
    log = {"kl": kl}
    shape_rewards([each.clone() for each in kl] if world.fixed else kl, reward=3.0)
    mean = torch.tensor([log["kl"][0].sum().item(), 2.0])
    dist.all_reduce(mean)
    return (mean[0] / mean[1]).item()


def CHECK(results: list[float]) -> None:
    assert all(abs(result - 0.15) < 1e-6 for result in results)
