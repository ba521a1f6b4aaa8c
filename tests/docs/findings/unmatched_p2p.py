"""A send or a receive has no counterpart.

The other end has ended without posting it, or posted it with another tag or for another rank.

Level: error

Fix: Post as many receives as sends between two ranks, with the same tags. In a ring or a pipeline, check
the first and the last rank and the direction.

Details:

- `send`: a send that nobody receives.
- `receive`: a receive for which nobody sends.
- `tag`: a send and a receive miss each other by their tags.
- `peer`: a rank receives from one neighbour while another one sends to it.
"""

import torch
import torch.distributed as dist

from harness import Rank

WORLD = {"pp": 2}


def faulty(rank: Rank) -> None:
    activation = torch.zeros(4)
    if rank.pp == 0:
        for _ in range(3):
            dist.send(activation, dst=1)
    else:
        for _ in range(2):  # one micro-batch too few
            dist.recv(activation, src=0)


def fixed(rank: Rank) -> None:
    activation = torch.zeros(4)
    for _ in range(3):
        if rank.pp == 0:
            dist.send(activation, dst=1)
        else:
            dist.recv(activation, src=0)
