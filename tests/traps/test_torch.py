"""torch's own distributed code, none of it written here, gives no finding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

Silent = Callable[..., list[Any]]
sizes = pytest.mark.parametrize("size", [2, 4])
newer = pytest.mark.skipif(
    torch.__version__.startswith("2.6."), reason="by itself, torch 2.6 cannot do it on CPUs either"
)


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 4))


@sizes
def test_ddp_with_several_buckets(silent: Silent, size: int) -> None:
    """Buckets of a kilobyte, several steps, gradients as in one process."""

    def program(rank: int) -> float:
        torch.manual_seed(0)
        model = _model()
        wrapped = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
        for step in range(4):
            torch.manual_seed(step * 10 + rank)
            wrapped(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return sum(p.sum().item() for p in model.parameters())

    results = silent(program, dp=size)
    assert len(set(results)) == 1


@sizes
def test_ddp_no_sync(silent: Silent, size: int) -> None:
    """Gradient accumulation without communication, then with."""

    def program(rank: int) -> None:
        wrapped = nn.parallel.DistributedDataParallel(_model())
        for step in range(4):
            with wrapped.no_sync() if step % 2 == 0 else contextlib.nullcontext():
                wrapped(torch.randn(4, 8)).sum().backward()

    silent(program, dp=size)


@sizes
def test_ddp_join_with_uneven_inputs(silent: Silent, size: int) -> None:
    """The Join context shadows the collectives of the ranks that have run out of data."""

    def program(rank: int) -> None:
        wrapped = nn.parallel.DistributedDataParallel(_model())
        with wrapped.join():
            for _ in range(2 + rank):
                wrapped(torch.randn(4, 8)).sum().backward()

    silent(program, dp=size)


@sizes
def test_ddp_finds_unused_parameters(silent: Silent, size: int) -> None:
    """Another half of the model is used on every second rank."""

    def program(rank: int) -> None:
        class Halves(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.parts = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4)])

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                out: torch.Tensor = self.parts[rank % 2](x)
                return out

        wrapped = nn.parallel.DistributedDataParallel(Halves(), find_unused_parameters=True)
        for _ in range(3):
            wrapped(torch.randn(4, 8)).sum().backward()

    silent(program, dp=size)


@newer
@sizes
def test_fully_shard(silent: Silent, size: int) -> None:
    """FSDP2 on the CPU, layer by layer, with an optimizer."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (size,))
        model = _model()
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    silent(program, dp=size)


@sizes
def test_tensor_parallel_plans(silent: Silent, size: int) -> None:
    """Column-wise, then row-wise: DTensor redistributes."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        mesh = init_device_mesh("cpu", (size,))
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        model(torch.ones(4, 8)).sum().backward()

    silent(program, tp=size)


@sizes
def test_a_two_dimensional_mesh_and_its_slices(silent: Silent, size: int) -> None:
    """HSDP-like meshes: collectives over each dimension."""

    def program(rank: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        for name in ("dp", "tp"):
            dist.all_reduce(torch.ones(2), group=mesh[name].get_group())

    silent(program, dp=size)


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B"])
@newer
@sizes
def test_pipeline_schedules(silent: Silent, size: int, schedule: str) -> None:
    """torch.distributed.pipelining on gloo: forward and backward of eight microbatches."""

    def program(rank: int) -> None:
        from torch.distributed import pipelining
        from torch.distributed.pipelining import PipelineStage

        torch.manual_seed(0)
        device = torch.device("cpu")
        layers = 2 * size if "Interleaved" in schedule else size
        mine = [s for s in range(layers) if s % size == rank]
        stages = [PipelineStage(nn.Linear(8, 8), s, layers, device) for s in mine]
        made = getattr(pipelining, schedule)(
            stages if "Interleaved" in schedule else stages[0],
            8,
            loss_fn=lambda out, target: (out - target).square().mean(),
        )
        x, target = torch.randn(16, 8), torch.zeros(16, 8)
        first, last = 0 in mine, layers - 1 in mine
        losses: list[Any] = []
        args = (x,) if first else ()
        made.step(*args, **({"target": target, "losses": losses} if last else {}))

    silent(program, pp=size)


@sizes
def test_distributed_checkpoint(silent: Silent, size: int, tmp_path: Path) -> None:
    """Save and load of a sharded state."""

    def program(rank: int, folder: str) -> None:
        import torch.distributed.checkpoint as checkpoint
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (size,))
        tensor = distribute_tensor(torch.arange(16.0), mesh, [Shard(0)])
        dcp: Any = checkpoint
        dcp.save({"x": tensor}, checkpoint_id=folder)
        other = distribute_tensor(torch.zeros(16), mesh, [Shard(0)])
        dcp.load({"x": other}, checkpoint_id=folder)
        assert torch.equal(other.full_tensor(), torch.arange(16.0))

    silent(program, str(tmp_path), dp=size)


@sizes
def test_zero_redundancy_optimizer(silent: Silent, size: int) -> None:
    """Each rank updates its share and broadcasts it."""

    def program(rank: int) -> None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        torch.manual_seed(0)
        wrapped = nn.parallel.DistributedDataParallel(_model())
        optimizer = ZeroRedundancyOptimizer(
            wrapped.parameters(), optimizer_class=torch.optim.Adam, lr=0.01
        )
        for _ in range(3):
            wrapped(torch.randn(4, 8)).sum().backward()
            optimizer.step()

    silent(program, dp=size)


@sizes
def test_autograd_collectives(silent: Silent, size: int) -> None:
    """torch.distributed.nn.functional, forward and backward."""

    def program(rank: int) -> None:
        import warnings

        import torch.distributed.nn as distributed_nn

        functional: Any = distributed_nn.functional
        warnings.simplefilter("ignore")
        x = torch.full((2,), float(rank), requires_grad=True)
        parts = functional.all_gather(x)
        total = functional.all_reduce(torch.stack(list(parts)).sum())
        shifted = functional.broadcast(x * 2, src=0)
        (total + shifted.sum()).backward()

    silent(program, dp=size)


@sizes
def test_object_collectives(silent: Silent, size: int) -> None:
    """Objects of different pickled size."""

    def program(rank: int) -> None:
        gathered: list[Any] = [None] * size
        dist.all_gather_object(gathered, "x" * (10 + rank))
        dist.broadcast_object_list([{"from": int(rank)}], src=0)
        got: list[Any] = [None]
        dist.scatter_object_list(got, [list(range(r)) for r in range(size)] if rank == 0 else None)
        dist.gather_object(int(rank), [None] * size if rank == 0 else None, dst=0)

    silent(program, dp=size)


@sizes
def test_periodic_model_averaging(silent: Silent, size: int) -> None:
    """Post-local SGD's periodic averager."""

    def program(rank: int) -> None:
        from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

        model = _model()
        averager = PeriodicModelAverager(period=2, warmup_steps=1)
        for _ in range(5):
            model(torch.randn(4, 8)).sum().backward()
            averager.average_parameters(model.parameters())

    silent(program, dp=size)
