"""nvalchemi-toolkit #143: one collective per key, and each rank walks the keys its own way."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("call_mismatch", ranks=(0, 1))


def exchange(outputs: dict[str, torch.Tensor]) -> None:
    for key, value in outputs.items():  # GUARD
        if key == "energy":  # GUARD
            dist.all_reduce(value)  # BUG
        else:
            received = torch.empty_like(value)
            dist.all_to_all_single(received, value)  # BUG
            outputs[key] = received


def main(rank: Rank, world: Ground) -> tuple[float, list[float]]:
    # As a set of strings would be walked under two hash seeds.
    keys = ["energy", "forces"] if rank == 0 else ["forces", "energy"]
    if world.fixed:
        keys.sort()
    made = {"energy": torch.tensor([float(rank + 1)]), "forces": torch.arange(2.0) + 10 * rank}
    outputs = {key: made[key] for key in keys}
    exchange(outputs)
    return outputs["energy"].item(), outputs["forces"].tolist()


def CHECK(results: list[tuple[float, list[float]]]) -> None:
    assert [(3.0, [0.0, 10.0]), (3.0, [1.0, 11.0])] == results
