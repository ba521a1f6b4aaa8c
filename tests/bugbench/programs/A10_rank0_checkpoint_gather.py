"""Only rank 0 saves, and two calls deep in the saving there is a gather of the optimizer's shards."""

import io

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 3}
EXPECT = Expect("missing_participant", ranks=(1, 2))


def gather_shards(shard: torch.Tensor) -> torch.Tensor | None:
    leader = dist.get_rank() == 0
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    dist.gather(shard, parts if leader else None, dst=0)  # BUG
    return torch.cat(parts) if leader else None


def optimizer_state(shard: torch.Tensor, step: int) -> dict[str, object]:
    return {"step": step, "exp_avg": gather_shards(shard)}


def save_checkpoint(shard: torch.Tensor, step: int) -> int:
    state = optimizer_state(shard, step)
    if dist.get_rank() != 0:
        return 0
    file = io.BytesIO()
    torch.save(state, file)
    return file.tell()


def main(rank: int, world: Ground) -> int:
    shard = torch.full((4,), float(rank))
    for _ in range(2):
        gradient = torch.ones(12)
        dist.all_reduce(gradient)
        shard += gradient.view(world.size, 4)[rank]
    if rank == 0 or world.fixed:  # GUARD
        return save_checkpoint(shard, step=2)
    return 0


def CHECK(results: list[int]) -> None:
    assert results[0] > 0
    assert [0, 0] == results[1:]
