"""A rank raised an exception, or called `pytest.fail`.

It is reported as the cause of what it did to the others: they wait for that rank, or their calls fail with
"Connection closed by peer". Its traceback is part of the report.

Level: error

Fix: Mend what raised. If such an error is expected in production, all ranks have to agree on it (say, with an
`all_reduce` of a flag) before any of them leaves the common order of calls.

Details:

- `cleanup`: with an exception under way, the rank made a call that the others do not make there, as in a
  `finally` or a context manager.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}
REWARDS: list[list[float]] = [[1.0, 3.0], []]


def faulty(rank: int) -> float:
    mean = sum(REWARDS[rank]) / len(REWARDS[rank])  # no rewards on rank 1
    total = torch.tensor([mean])
    dist.all_reduce(total)
    return total.item()


def fixed(rank: int) -> float:
    total = torch.tensor([sum(REWARDS[rank]), float(len(REWARDS[rank]))])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()
