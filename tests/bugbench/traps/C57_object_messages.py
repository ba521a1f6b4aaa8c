"""Shapes go ahead as objects, then the tensors themselves."""

from typing import Any

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"pp": 2}


def main(rank: int, world: Ground) -> Any:
    if rank == 0:
        hidden = torch.full((3, 5), 2.0)
        dist.send_object_list([tuple(hidden.shape), {"micro_batch": 7}], dst=1)
        dist.send(hidden, dst=1)
        return None
    meta: list[Any] = [None, None]
    dist.recv_object_list(meta, src=0)
    shape, extra = meta
    hidden = torch.empty(shape)
    dist.recv(hidden, src=0)
    return shape, extra, hidden.sum().item()


def CHECK(results: list[Any]) -> None:
    assert [None, ((3, 5), {"micro_batch": 7}, 30.0)] == results
