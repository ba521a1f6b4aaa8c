"""Every rank broadcasts the initial weights from itself, so that each keeps its own."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="root")


def main(rank: int, world: Ground) -> list[float]:
    torch.manual_seed(100 + rank)
    model = torch.nn.Linear(3, 1)
    src = 0 if world.fixed else dist.get_rank()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=src)  # BUG
    flat: list[float] = model.weight.flatten().tolist()
    return flat


def CHECK(results: list[list[float]]) -> None:
    torch.manual_seed(100)
    expected = torch.nn.Linear(3, 1).weight.flatten().tolist()
    assert [expected, expected] == results
