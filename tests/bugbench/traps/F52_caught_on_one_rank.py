"""One rank meets an error that it expects and handles; no collective is involved in that."""

import json

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}

LINES = ['{"reward": 2.0}', '{"reward": ']


def reward(line: str) -> float:
    try:
        return float(json.loads(line)["reward"])
    except json.JSONDecodeError:
        return 0.0


def main(rank: int, world: Ground) -> float:
    total = torch.tensor(reward(LINES[rank]))
    dist.all_reduce(total)
    return total.item()


def CHECK(results: list[float]) -> None:
    assert [2.0, 2.0] == results
