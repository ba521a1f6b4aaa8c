"""`new_group` was not made by every rank, in one order, with one member list.

All ranks of the world have to create all groups in the same order, also those that they are no member of.
Otherwise ranks wait in a creation for each other, or two ranks hold different groups under one name.

Level: error

Fix: Let every rank walk over the same list of groups. If only members can make it, all of them pass
`use_local_synchronization=True`.

Details:

- `missing`: a rank left a creation out.
- `members`: ranks gave different member lists for one creation.
"""

import time

import torch.distributed as dist

WORLD = {"dp": 4}
EVALUATORS = [0, 1]


def faulty(rank: int) -> None:
    if rank in EVALUATORS:
        dist.new_group(EVALUATORS)
    else:
        time.sleep(0.5)  # the other ranks do something else


def fixed(rank: int) -> None:
    dist.new_group(EVALUATORS)  # on all ranks
    if rank not in EVALUATORS:
        time.sleep(0.5)
