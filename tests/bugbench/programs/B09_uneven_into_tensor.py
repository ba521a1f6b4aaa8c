"""all_gather_into_tensor of three rows and of two: each rank takes the others to be like itself."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="shape")


def gather_rows(rows: torch.Tensor, world: Ground) -> torch.Tensor:
    if world.fixed:
        longest = torch.tensor(len(rows))
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        rows = torch.nn.functional.pad(rows, (0, 0, 0, int(longest) - len(rows)))
    out = rows.new_empty(len(rows) * dist.get_world_size(), rows.shape[1])
    dist.all_gather_into_tensor(out, rows)  # BUG
    return out


def main(rank: int, world: Ground) -> list[list[float]]:
    rows = torch.full((3 - rank, 2), float(rank + 1))
    gathered: list[list[float]] = gather_rows(rows, world).tolist()
    return gathered


def CHECK(results: list[list[list[float]]]) -> None:
    expected = [[1.0, 1.0]] * 3 + [[2.0, 2.0]] * 2 + [[0.0, 0.0]]
    assert [expected, expected] == results
