"""The ranks of a group make the same call with arguments that do not go together.

gloo does not compare them. It may hang, abort the process, or return wrong numbers on some ranks.

Level: error, or a warning where only the shapes differ and the number of elements is the same

Fix: Give every member the same reduce op, root, dtype and shape. Roots are global ranks; to name a rank
by its place in the group, use `group_src` and `group_dst`. Where sizes depend on the data, exchange
them first or pad.

Details:

- `reduce_op`: SUM on one rank, MAX on another, and the like.
- `root`: another `src` or `dst`.
- `dtype`: another dtype. Python and numpy numbers often become float64 or int64.
- `shape`: another number of elements, or (as a warning) another shape of as many.
- `splits`: in an all-to-all, what one rank sends is not what the other expects.
- `numel`: a message of another size than the receive has room for.
"""

import torch
import torch.distributed as dist

from harness import Rank

WORLD = {"dp": 2}


def faulty(rank: Rank) -> float:
    score = torch.tensor([float(rank)])
    dist.broadcast(score, src=int(rank))  # each rank names itself as the root
    return score.item()


def fixed(rank: Rank) -> float:
    score = torch.tensor([float(rank)])
    dist.broadcast(score, src=0)
    return score.item()
