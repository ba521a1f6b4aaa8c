"""The works of a coalescing block are dropped with it."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("work_not_waited", ranks=(0, 1))


def main(rank: int, world: Ground) -> tuple[torch.Tensor, ...]:
    grads = (torch.full((4,), 1.0 + rank), torch.full((2, 3), 10.0))
    with dist._coalescing_manager(async_ops=True) as handle:  # type: ignore[attr-defined]  # BUG
        for grad in grads:
            dist.all_reduce(grad)  # BUG
    if world.fixed:
        handle.wait()
    return grads


def CHECK(results: list[tuple[torch.Tensor, ...]]) -> None:
    assert [[3.0, 20.0]] * 2 == [[g.flatten()[0].item() for g in grads] for grads in results]
