"""Keys travel round the context-parallel ring while gradients are reduced over the replicas."""

import torch
import torch.distributed as dist

from harness import Rank
from tests.bugbench.program import Ground

WORLD = {"dp": 2, "cp": 2}


def main(rank: Rank, world: Ground) -> tuple[float, float]:
    from megatron.core import mpu

    ring = mpu.get_context_parallel_global_ranks()
    position, size = mpu.get_context_parallel_rank(), len(ring)
    after, before = ring[(position + 1) % size], ring[(position - 1) % size]
    keys = torch.full((4,), float(rank))
    total, works, grads = keys.clone(), [], []
    for layer in range(2):
        grad = torch.full((8,), float(rank + layer))
        works.append(dist.all_reduce(grad, group=mpu.get_data_parallel_group(), async_op=True))
        grads.append(grad)
        arriving = torch.empty_like(keys)
        requests = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, keys, after),
                dist.P2POp(dist.irecv, arriving, before),
            ]
        )
        world.pause(rank)
        for request in requests:
            request.wait()
        keys = arriving
        total += keys
    for work in works:
        assert work is not None
        work.wait()
    return total[0].item(), sum(grad[0].item() for grad in grads)


def CHECK(results: list[tuple[float, float]]) -> None:
    assert [(1.0, 6.0), (2.0, 10.0), (7.0, 6.0), (8.0, 10.0)] == results
