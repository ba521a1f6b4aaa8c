"""The process of a rank ended: by a signal, or with an exit code.

A crash in a C++ extension, `os._exit`, the out-of-memory killer. What the others suffered from it comes
after it in the report.

Level: error

Fix: Look at what the rank printed last (shown under the test), and at the call that it was in. Raise an
exception rather than end the process.
"""

import os

import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> None:
    dist.barrier()
    if rank == 1:
        os._exit(3)


def fixed(rank: int) -> None:
    dist.barrier()
