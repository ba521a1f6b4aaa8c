"""Experts receive no more tokens than their capacity, but the senders drop none."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("argument_mismatch", ranks=(0, 2), detail="splits")

ROUTED = ([2, 1, 3], [1, 2, 1], [0, 1, 2])
CAPACITY = 2


def main(rank: int, world: Ground) -> list[float]:
    sent = torch.tensor(ROUTED[rank])
    if world.fixed:
        sent = sent.clamp(max=CAPACITY)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    received = received.clamp(max=CAPACITY)
    tokens = torch.full((int(sent.sum()),), float(rank))
    mine = torch.empty(int(received.sum()))
    dist.all_to_all_single(mine, tokens, received.tolist(), sent.tolist())  # BUG
    experts: list[float] = mine.tolist()
    return experts


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 1.0, 2.0, 2.0]] == results
