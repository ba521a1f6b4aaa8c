"""Groups with the same members are made again and again at one line, and never destroyed.

Each group holds threads, sockets and, on GPUs, memory. A run of many steps ends with none left. Eight
living groups from one line are taken as a leak.

Level: warning

Fix: Make the group once and keep it, or `destroy_process_group()` it after use.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> None:
    for _ in range(10):
        dist.all_reduce(torch.ones(1), group=dist.new_group([0, 1]))


def fixed(rank: int) -> None:
    group = dist.new_group([0, 1])
    for _ in range(10):
        dist.all_reduce(torch.ones(1), group=group)
