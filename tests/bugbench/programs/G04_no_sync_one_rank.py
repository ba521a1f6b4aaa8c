"""One rank is still in no_sync at its last micro-batch, whose gradient never gets into the sum."""

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist

import harness
from harness import Rank
from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("value_mismatch", ranks=(0, 1))
MICRO_BATCHES = 2


class Reducer:
    """Sums gradients over the replicas; what comes in under no_sync waits for the next sync."""

    def __init__(self, size: int) -> None:
        self.kept = torch.zeros(size)
        self.syncing = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self.syncing = False
        yield
        self.syncing = True

    def backward(self, grad: torch.Tensor, *, last: bool) -> torch.Tensor | None:
        self.kept += grad
        if not last:
            return None
        # A replica that does not sync still takes part, with nothing to add.
        total = self.kept.clone() if self.syncing else torch.zeros_like(self.kept)
        dist.all_reduce(total)  # BUG
        return total


def main(rank: Rank, world: Ground) -> list[float]:
    reducer = Reducer(2)
    total = None
    # Rank 1 took the accumulation length from an old config.
    length = MICRO_BATCHES if rank == 0 or world.fixed else MICRO_BATCHES + 1
    for micro in range(MICRO_BATCHES):
        grad = torch.full((2,), float(10 * rank + micro + 1))
        synced = (micro + 1) % length == 0
        with contextlib.nullcontext() if synced else reducer.no_sync():
            total = reducer.backward(grad, last=micro == MICRO_BATCHES - 1)
    assert total is not None
    harness.expect("summed gradient", total, torch.full((2,), 26.0))  # BUG
    return total.tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[26.0, 26.0]] * 2 == results
