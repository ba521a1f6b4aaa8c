"""autocast #386: a save that ends in a barrier is called by the main process only."""

import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("missing_participant", ranks=(1,), text="save")


class Checkpoint:
    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.written: list[str] = []

    def save(self, name: str) -> None:
        if self.writes:
            self.written.append(name)
        dist.barrier()  # BUG

    def finalize(self) -> None:
        dist.barrier()


def main(rank: Rank, world: Ground) -> list[str]:
    checkpoint = Checkpoint(writes=rank == 0)
    if rank == 0 or world.fixed:  # GUARD
        checkpoint.save("last.ckpt")
    checkpoint.finalize()
    return checkpoint.written


def CHECK(results: list[list[str]]) -> None:
    assert [["last.ckpt"], []] == results
