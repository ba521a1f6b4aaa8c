"""Ranks wait for one another in a circle.

Every rank of the circle is in a call that another one has not reached, and none can go on. It takes two
groups, or point-to-point calls: within one group it would be a missing call or a mismatch.

Level: error

Fix: Enter groups that have ranks in common in one order on all ranks. For messages, let one side send
first, or use `isend`, `irecv` or `batch_isend_irecv`. A `send` is judged as one that blocks until its
receive is posted, as on NCCL; `world(..., buffered_sends=True)` judges it as if it never blocked.

Details:

- `groups`: all waits are in collectives.
- `p2p`: all waits are in sends and receives.
- `mixed`: some of each.
"""

import torch
import torch.distributed as dist

from harness import Rank

WORLD = {"dp": 2}


def faulty(rank: Rank) -> float:
    mine, theirs = torch.tensor([float(rank)]), torch.zeros(1)
    dist.send(mine, dst=1 - rank)  # both send first
    dist.recv(theirs, src=1 - rank)
    return theirs.item()


def fixed(rank: Rank) -> float:
    mine, theirs = torch.tensor([float(rank)]), torch.zeros(1)
    sent = dist.isend(mine, dst=1 - rank)
    dist.recv(theirs, src=1 - rank)
    assert sent is not None
    sent.wait()
    return theirs.item()
