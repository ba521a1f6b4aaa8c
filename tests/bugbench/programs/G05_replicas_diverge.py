"""The replicas start from different weights, since each is seeded with its rank."""

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))


def main(rank: Rank, world: Ground) -> list[float]:
    torch.manual_seed(1234 if world.fixed else 1234 + rank)
    model = torch.nn.Linear(3, 1, bias=False)  # BUG
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(torch.full((2, 3), float(rank + step))).sum().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= rank.world_size
        optimizer.step()
    harness.expect_same("weight", model.weight.detach(), over="dp")  # BUG
    return model.weight.detach().flatten().tolist()


def CHECK(results: list[list[float]]) -> None:
    assert results[0] == results[1]
