"""Rank 1 is killed by a segmentation fault of its loader thread while it is inside a collective."""

import ctypes
import threading
import time

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_died", ranks=(1,), text="SIGSEGV")


def main(rank: int, world: Ground) -> float:
    page = ctypes.create_string_buffer(b"tokens")
    # The faulty loader lets go of its page before the thread reads it.
    address = ctypes.addressof(page) if world.fixed or rank == 0 else 0

    def prefetch() -> None:
        time.sleep(0.3)
        ctypes.string_at(address)

    loader = threading.Thread(target=prefetch)
    loader.start()
    if rank == 0:
        time.sleep(0.6)
    loss = torch.tensor(float(rank + 1))
    dist.all_reduce(loss)  # BUG
    loader.join(timeout=5)
    return loss.item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
