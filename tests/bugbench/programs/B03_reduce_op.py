"""One rank takes the greatest gradient norm, the other adds the norms up."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="reduce_op")


def global_norm(grads: list[torch.Tensor], norm_type: float) -> float:
    if norm_type == float("inf"):
        norm = torch.stack([g.abs().max() for g in grads]).max()
        op = dist.ReduceOp.MAX
    else:
        norm = torch.stack([g.pow(2).sum() for g in grads]).sum()
        op = dist.ReduceOp.SUM
    dist.all_reduce(norm, op=op)  # BUG
    return norm.item()


def main(rank: int, world: Ground) -> float:
    grads = [torch.full((2,), 1.0 + rank), torch.full((3,), 2.0)]
    norm_type = float("inf") if rank == 1 and not world.fixed else 2.0
    return global_norm(grads, norm_type)


def CHECK(results: list[float]) -> None:
    assert [34.0, 34.0] == results
