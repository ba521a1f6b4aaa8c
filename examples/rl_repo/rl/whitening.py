"""Masked whitening over the ranks that share a batch."""

import torch
import torch.distributed as dist
from megatron.core import mpu


def masked_whiten(values, mask, group, eps=1e-8):
    """Mean 0 and (unbiased) variance 1 over the kept tokens of all ranks of ``group``.

    ``values`` and ``mask`` are 1-D and of one length, which may be 0: such a rank still has to take
    part in both sums. Masked-out tokens come out with the same shift and scale.
    """
    kept = mask.bool()
    x = values.float()
    sums = torch.stack([x[kept].sum(), kept.sum().float()])
    dist.all_reduce(sums, group=group)
    total, count = sums.unbind()
    mean = total / count.clamp(min=1)
    squares = (x[kept] - mean).square().sum()
    dist.all_reduce(squares, group=group)
    if count == 0:  # on every rank alike, and all have taken part: nobody is left waiting
        raise ValueError("every token of the batch is masked out")
    return (x - mean) * torch.rsqrt(squares / (count - 1).clamp(min=1) + eps)


def whiten_batch(samples, masks):
    """Whiten the local tokens of each sample by the statistics of the whole batch."""
    group = mpu.get_data_parallel_group(with_context_parallel=True)
    whitened = masked_whiten(torch.cat(samples), torch.cat(masks), group)
    return list(torch.split(whitened, [len(sample) for sample in samples]))
