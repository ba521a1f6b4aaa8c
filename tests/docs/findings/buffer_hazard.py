"""A buffer was used while a call was still working on it, or its memory does not suit the call.

The values may come out right by luck; on another machine, or with another size, they do not.

Level: error, or a warning where a read or write may have been harmless

Fix: `wait()` before the buffer is used, or work on another tensor. Give each call in flight, and each rank's
result, memory of its own: `[torch.empty_like(x) for _ in range(n)]`, not `[buffer] * n`. Pass
`x.contiguous()` for a strided tensor, and copy the result back.

Details:

- `written`, `read`, `resized`: what was done to the buffer before the wait.
- `overlap`: another call in flight uses the same memory.
- `outputs`: several results of one call are written to the same place.
- `strided`: the tensor has gaps in memory, and gloo moves the bytes in between too.
"""

import torch
import torch.distributed as dist

WORLD = {"dp": 2}


def faulty(rank: int) -> float:
    gradient = torch.full((1000,), 2.0)
    work = dist.all_reduce(gradient, async_op=True)
    gradient /= 2  # while it is being reduced
    assert work is not None
    work.wait()
    return gradient[0].item()


def fixed(rank: int) -> float:
    gradient = torch.full((1000,), 2.0)
    work = dist.all_reduce(gradient, async_op=True)
    assert work is not None
    work.wait()
    gradient /= 2
    return gradient[0].item()
