"""Averages of a rollout over all ranks that have one, for the log."""

import torch
import torch.distributed as dist
from megatron.core import mpu


def log_rollout(rollout):
    """The mean reward and KL of the batch on the last pipeline stage; None on the others."""
    if not mpu.is_pipeline_last_stage():
        return None  # earlier stages have no rollout; the group below is within one stage
    group = mpu.get_data_parallel_group(with_context_parallel=True)
    tokens = torch.cat(rollout["kl"])
    rewards = torch.tensor(rollout["rewards"])
    sums = torch.stack([rewards.sum(), torch.tensor(float(len(rewards)))])
    dist.all_reduce(sums, op=dist.ReduceOp.SUM, group=group)
    kl_sums = torch.stack([tokens.sum(), torch.tensor(float(len(tokens)))])
    dist.all_reduce(kl_sums, op=dist.ReduceOp.SUM, group=group)
    return {"reward": (sums[0] / sums[1]).item(), "kl": (kl_sums[0] / kl_sums[1]).item()}
