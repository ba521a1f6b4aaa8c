"""An uneven all_to_all: what each rank sends is what the other expects."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 3}

ROUTED = ([2, 0, 3], [1, 4, 0], [0, 1, 2])


def main(rank: int, world: Ground) -> list[float]:
    sent = ROUTED[rank]
    counts = torch.empty(3, dtype=torch.int64)
    dist.all_to_all_single(counts, torch.tensor(sent))
    tokens = torch.full((sum(sent), 2), float(rank))
    mine = torch.empty(int(counts.sum()), 2)
    dist.all_to_all_single(mine, tokens, counts.tolist(), sent)
    back = torch.empty_like(tokens)
    dist.all_to_all_single(back, mine + 10, sent, counts.tolist())
    returned: list[float] = back[:, 0].tolist()
    return returned


def CHECK(results: list[list[float]]) -> None:
    assert [[10.0] * 5, [11.0] * 5, [12.0] * 3] == results
