"""A rank was still in user code at the deadline.

It is in no collective, so it could go on any moment, and a deadlock is not proved. Only the deadline of
the world (`world_timeout`, 60 seconds unless set) ends it. Its stack is in the report.

Level: error

Fix: Look at the stack: a loop that does not end, a lock, a download. If the work is only slow, raise
`world_timeout` or give `world(..., timeout=...)`.
"""

import time

import torch.distributed as dist

WORLD = {"dp": 2, "timeout": 1.0}


def faulty(rank: int) -> None:
    if rank == 1:
        time.sleep(30)
    dist.barrier()


def fixed(rank: int) -> None:
    if rank == 1:
        time.sleep(0.01)  # slow is not wrong
    dist.barrier()
