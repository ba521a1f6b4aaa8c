"""A batch of sends and receives with the neighbours, in which rank 1 leaves one receive out."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"cp": 3}
EXPECT = Expect("unmatched_p2p|missing_participant", ranks=(1,))


def main(rank: int, world: Ground) -> list[float]:
    last = dist.get_world_size() - 1
    mine = torch.full((2,), float(rank + 1))
    left, right = torch.zeros(2), torch.zeros(2)
    ops = []
    if rank > 0:
        ops.append(dist.P2POp(dist.isend, mine, rank - 1))
        if rank == last or world.fixed:
            ops.append(dist.P2POp(dist.irecv, left, rank - 1))
    if rank < last:
        ops.append(dist.P2POp(dist.isend, mine, rank + 1))
        ops.append(dist.P2POp(dist.irecv, right, rank + 1))
    for work in dist.batch_isend_irecv(ops):  # BUG
        work.wait()  # BUG
    return [left[0].item(), right[0].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 2.0], [1.0, 3.0], [2.0, 0.0]] == results
