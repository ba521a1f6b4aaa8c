"""Two small training steps, as plain functions of a rank, with what they have to compute.

Each step returns its values by name. The references compute the same on one process, without any
collective, and say what each rank must return.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from harness import Rank

Values = dict[str, torch.Tensor]

DP_CP_WORLD = {"dp": 2, "cp": 2}
PP_TP_WORLD = {"pp": 2, "tp": 2}

# -- dp2 × cp2: one policy-gradient step on sequences that are cut into two -----------------

LENGTH = 8
# Features, rewards and response mask of the sequence of each replica. All of the first response
# is in the second half: context-parallel rank 0 of replica 0 owns no response token.
REWARDS = (1.5, -0.5)
MASKS = ((0, 0, 0, 0, 0, 0, 1, 1), (0, 0, 1, 1, 1, 1, 1, 0))


def sequence(replica: int) -> torch.Tensor:
    """Features, reward and mask of one sequence, as rows."""
    position = torch.arange(float(LENGTH))
    feature = torch.sin(position * (replica + 1)) + replica
    reward = torch.full((LENGTH,), REWARDS[replica]) + 0.25 * position
    return torch.stack([feature, reward, torch.tensor(MASKS[replica], dtype=torch.float32)])


def dp_cp_step(rank: Rank) -> Values:
    """Slice, whiten, loss, gradient reduction, metrics."""
    from megatron.core import mpu

    cp_group = mpu.get_context_parallel_group()
    dp_cp_group = mpu.get_data_parallel_group(with_context_parallel=True)
    first, last = mpu.get_context_parallel_global_ranks()
    half = LENGTH // 2

    # The first rank of a replica has read the sequence; each keeps its slice.
    whole = sequence(rank.dp) if rank.cp == 0 else torch.zeros(3, LENGTH)
    dist.broadcast(whole, src=first, group=cp_group)
    feature, reward, mask = whole[:, rank.cp * half : (rank.cp + 1) * half].clone()

    # A token is scored by its successor, and the successor of the last one is on the next rank.
    edge = feature[:1].clone()
    after = torch.zeros(1)
    if rank.cp == 1:
        request = dist.isend(edge, dst=first)
        assert request is not None
        request.wait()
    else:
        dist.recv(after, src=last)
    score = torch.cat([feature[1:], after])

    # Whiten over all response tokens of all replicas.
    sums = torch.stack([(reward * mask).sum(), (reward**2 * mask).sum(), mask.sum()])
    dist.all_reduce(sums, op=dist.ReduceOp.SUM, group=dp_cp_group)
    mean = sums[0] / sums[2]
    advantage = (reward - mean) * torch.rsqrt(sums[1] / sums[2] - mean**2 + 1e-8) * mask

    # The loss and its gradient, per token.
    weight = torch.tensor([0.5, -0.25])
    logits = weight[0] * score + weight[1]
    loss = (advantage * logits.tanh()).sum() / sums[2]
    slope = advantage * (1 - logits.tanh() ** 2) / sums[2]
    grad = torch.stack([(slope * score).sum(), slope.sum()])
    work = dist.all_reduce(grad, op=dist.ReduceOp.SUM, group=dp_cp_group, async_op=True)

    # Metrics while the gradient is on its way.
    peak = torch.where(mask > 0, advantage, -9.0).max()
    dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=dp_cp_group)
    dist.all_reduce(loss, op=dist.ReduceOp.SUM, group=dp_cp_group)
    counts = [torch.zeros(1) for _ in range(4)]
    dist.all_gather(counts, mask.sum().view(1), group=dp_cp_group)
    assert work is not None
    work.wait()
    weight -= 0.1 * grad

    # Each rank of a replica hands over the tokens whose log the other one writes.
    keep = [1, 3] if rank.cp == 0 else [2, 2]
    take = [1, 2] if rank.cp == 0 else [3, 2]
    written = torch.zeros(sum(take))
    dist.all_to_all_single(written, advantage, take, keep, group=cp_group)
    return {
        "weight": weight,
        "loss": loss,
        "peak": peak,
        "counts": torch.cat(counts),
        "written": written,
    }


def dp_cp_reference() -> list[Values]:
    """What `dp_cp_step` has to return on each rank."""
    features, rewards, masks = torch.stack([sequence(0), sequence(1)]).unbind(1)
    tokens = masks.sum()
    mean = (rewards * masks).sum() / tokens
    variance = (rewards**2 * masks).sum() / tokens - mean**2
    advantage = (rewards - mean) * torch.rsqrt(variance + 1e-8) * masks
    score = torch.cat([features[:, 1:], torch.zeros(2, 1)], 1)
    weight = torch.tensor([0.5, -0.25], requires_grad=True)
    loss = (advantage * (weight[0] * score + weight[1]).tanh()).sum() / tokens
    loss.backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    shared = {
        "weight": weight.detach() - 0.1 * weight.grad,
        "loss": loss.detach(),
        "peak": advantage[masks > 0].max(),
        "counts": masks.reshape(4, LENGTH // 2).sum(1),
    }
    written = []
    for row in advantage:
        written += [torch.cat([row[:1], row[4:6]]), torch.cat([row[1:4], row[6:]])]
    return [{**shared, "written": written[rank]} for rank in range(4)]


# -- pp2 × tp2: forward and backward of a two-stage model with tied embeddings ---------------

VOCABULARY, HIDDEN, INNER = 6, 3, 4
# All inputs are in the first half of the vocabulary: tensor-parallel rank 1 looks none up.
INPUTS = (0, 2, 1, 2, 0)
TARGETS = (2, 1, 4, 0, 5)


def parameters() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Embedding, first and second matrix, in whole."""
    generator = torch.Generator().manual_seed(3)
    return (
        torch.randn(VOCABULARY, HIDDEN, generator=generator),
        torch.randn(HIDDEN, INNER, generator=generator),
        torch.randn(INNER, HIDDEN, generator=generator),
    )


def pp_tp_step(rank: Rank) -> Values:
    """Embedding and MLP on the first stage, vocabulary-parallel loss on the last, and back."""
    from megatron.core import mpu

    tp_group = mpu.get_tensor_model_parallel_group()
    pp_group = mpu.get_pipeline_model_parallel_group()
    model_group = mpu.get_model_parallel_group()
    embedding_group = mpu.get_embedding_group()
    first = mpu.get_pipeline_model_parallel_first_rank()
    last = mpu.get_pipeline_model_parallel_last_rank()
    start = rank.tp * VOCABULARY // 2
    table, wide, narrow = parameters()
    table = table.chunk(2)[rank.tp].clone()
    wide = wide.chunk(2, 1)[rank.tp]
    narrow = narrow.chunk(2)[rank.tp]
    inputs, targets = torch.tensor(INPUTS), torch.tensor(TARGETS)
    grads = torch.zeros_like(table)
    loss, best = torch.zeros(1), torch.zeros(1)
    owned = (inputs >= start) & (inputs < start + VOCABULARY // 2)

    if mpu.is_pipeline_first_stage():
        local = torch.where(owned, inputs - start, 0)
        embedded = table[local] * owned.unsqueeze(1)
        dist.all_reduce(embedded, op=dist.ReduceOp.SUM, group=tp_group)
        inner = (embedded @ wide).tanh()
        hidden = inner @ narrow
        dist.all_reduce(hidden, op=dist.ReduceOp.SUM, group=tp_group)
        dist.send(hidden, dst=last)
        back = torch.zeros_like(hidden)
        dist.recv(back, src=last)
        inner_grad = (back @ narrow.T) * (1 - inner**2)
        embedded_grad = inner_grad @ wide.T
        work = dist.all_reduce(embedded_grad, op=dist.ReduceOp.SUM, group=tp_group, async_op=True)
        assert work is not None
        squares = ((inner.T @ back) ** 2).sum() + ((embedded.T @ inner_grad) ** 2).sum()
        work.wait()
        grads.index_add_(0, local, embedded_grad * owned.unsqueeze(1))
    else:
        hidden = torch.zeros(len(INPUTS), HIDDEN)
        dist.recv(hidden, src=first)
        logits = hidden @ table.T
        peak = logits.max(1).values
        split = [2, 3]  # the tokens whose best logit each of the two looks after
        mine = split[rank.tp]
        shares = torch.zeros(2 * mine)
        dist.all_to_all_single(shares, peak.clone(), [mine, mine], split, group=tp_group)
        best = shares.view(2, mine).max(0).values.sum().view(1)
        dist.all_reduce(best, op=dist.ReduceOp.SUM, group=tp_group)
        dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=tp_group)
        exponents = (logits - peak.unsqueeze(1)).exp()
        total = exponents.sum(1)
        dist.all_reduce(total, op=dist.ReduceOp.SUM, group=tp_group)
        hit = (targets.unsqueeze(1) == torch.arange(start, start + VOCABULARY // 2)).float()
        chosen = ((logits - peak.unsqueeze(1)) * hit).sum(1)
        dist.all_reduce(chosen, op=dist.ReduceOp.SUM, group=tp_group)
        loss = (total.log() - chosen).mean().view(1)
        slope = (exponents / total.unsqueeze(1) - hit) / len(TARGETS)
        back = slope @ table
        work = dist.all_reduce(back, op=dist.ReduceOp.SUM, group=tp_group, async_op=True)
        assert work is not None
        grads += slope.T @ hidden
        squares = torch.zeros(())
        work.wait()
        dist.send(back, dst=first)

    # The two copies of the embedding, the norm over all shards, the loss for everyone.
    dist.all_reduce(grads, op=dist.ReduceOp.SUM, group=embedding_group)
    if mpu.is_pipeline_first_stage():
        squares = squares + (grads**2).sum()
    dist.all_reduce(squares, op=dist.ReduceOp.SUM, group=model_group)
    dist.broadcast(loss, src=last, group=pp_group)
    return {"loss": loss, "best": best, "norm": squares.sqrt(), "table": table - 0.1 * grads}


def pp_tp_reference() -> list[Values]:
    """What `pp_tp_step` has to return on each rank."""
    table, wide, narrow = (p.requires_grad_() for p in parameters())
    hidden = (table[torch.tensor(INPUTS)] @ wide).tanh() @ narrow
    logits = hidden @ table.T
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(TARGETS))
    loss.backward()  # type: ignore[no-untyped-call]
    grads = [p.grad for p in (table, wide, narrow)]
    norm = torch.stack([(g**2).sum() for g in grads if g is not None]).sum().sqrt()
    assert table.grad is not None
    updated = (table.detach() - 0.1 * table.grad).chunk(2)
    best = logits.detach().max(1).values.sum().view(1)
    return [
        {
            "loss": loss.detach().view(1),
            "best": best if rank >= 2 else torch.zeros(1),
            "norm": norm,
            "table": updated[rank % 2],
        }
        for rank in range(4)
    ]
