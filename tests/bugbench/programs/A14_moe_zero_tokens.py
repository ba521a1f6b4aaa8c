"""A rank that got no tokens leaves the exchange with the experts out."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("missing_participant|call_mismatch", ranks=(2,))


def dispatch(tokens: torch.Tensor, counts: torch.Tensor, skip_empty: bool) -> torch.Tensor:
    received = torch.empty_like(counts)
    dist.all_to_all_single(received, counts)
    if skip_empty and tokens.numel() == 0:  # GUARD
        return tokens
    output = torch.empty(int(received.sum()))
    dist.all_to_all_single(output, tokens, received.tolist(), counts.tolist())  # BUG
    return output


def main(rank: int, world: Ground) -> float:
    # How many tokens each rank has for each of the three experts. Rank 2 got padding only.
    counts = torch.tensor([[2, 1, 0], [1, 1, 0], [0, 0, 0]])[rank]
    tokens = torch.full((int(counts.sum()),), float(rank + 1))
    mine = dispatch(tokens, counts, skip_empty=not world.fixed)
    load = torch.tensor([mine.sum()])
    dist.all_reduce(load)
    return load.item()


def CHECK(results: list[float]) -> None:
    assert [7.0] * 3 == results
