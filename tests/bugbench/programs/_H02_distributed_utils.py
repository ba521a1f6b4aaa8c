"""What a project keeps in its distributed_utils: a decorator that shares a function's result."""

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist


def from_rank(src: int) -> Callable[[Callable[[], torch.Tensor]], Callable[[], torch.Tensor]]:
    """Have all ranks see what the function returns on rank ``src``."""

    def decorate(function: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        @functools.wraps(function)
        def shared() -> torch.Tensor:
            result = function()
            dist.broadcast(result, src=src)  # BUG
            return result

        return shared

    return decorate
