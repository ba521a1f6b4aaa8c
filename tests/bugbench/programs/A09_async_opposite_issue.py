"""Two asynchronous all_reduces of one size are issued in opposite order and waited for later."""

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("misaligned_calls", ranks=(0, 1))


def main(rank: int, world: Ground) -> dict[str, list[float]]:
    gradients = {"encoder": torch.tensor([1.0, 2.0]), "decoder": torch.tensor([30.0, 40.0])}
    # The order in which backward is done with them; it depends on the batch.
    ready = ["decoder", "encoder"]
    if rank == 1 and not world.fixed:
        ready.reverse()
    works = [dist.all_reduce(gradients[bucket], async_op=True) for bucket in ready]  # GUARD # BUG
    for work in works:
        assert work is not None
        work.wait()
    return {name: gradient.tolist() for name, gradient in gradients.items()}


def CHECK(results: list[dict[str, list[float]]]) -> None:
    assert [{"encoder": [2.0, 4.0], "decoder": [60.0, 80.0]}] * 2 == results
