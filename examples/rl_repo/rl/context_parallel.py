"""Which tokens of a response this context-parallel rank holds, and how to see them all."""

import torch
import torch.distributed as dist
from megatron.core import mpu


def local_positions(total, response):
    """Positions within the response that this rank holds (zigzag), ascending.

    Rank r of cp has token chunks r and 2*cp-1-r. A token is predicted one position before it.
    """
    cp, rank = mpu.get_context_parallel_world_size(), mpu.get_context_parallel_rank()
    chunk = -(-total // (2 * cp))
    first = total - response - 1
    mine = {rank, 2 * cp - 1 - rank}
    return [i for i in range(response) if (first + i) // chunk in mine]


def gather_response(local, total, response):
    """The whole response of which each rank of the cp group holds a part: a new tensor."""
    whole = torch.zeros(response, dtype=local.dtype)
    whole[local_positions(total, response)] = local
    dist.all_reduce(whole, group=mpu.get_context_parallel_group())
    return whole
