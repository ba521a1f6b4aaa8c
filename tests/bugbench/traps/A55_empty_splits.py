"""A rank without tokens takes part in the exchange with empty splits."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}


def main(rank: int, world: Ground) -> list[float]:
    counts = torch.tensor([[2, 1, 0], [1, 1, 0], [0, 0, 0]])[rank]
    tokens = torch.full((int(counts.sum()),), float(rank + 1))
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)
    inputs, outputs = counts.tolist(), received.tolist()
    output = torch.empty(sum(outputs))
    dist.all_to_all_single(output, tokens, outputs, inputs)
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, output * 10, inputs, outputs)
    return back.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[10.0] * 3, [20.0] * 2, []] == results
