"""Correct distributed programs of other people's libraries give no finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

Silent = Callable[..., list[Any]]
sizes = pytest.mark.parametrize("size", [2, 4])

# Not test_script at 4 ranks (its own assertion on splitting fails there), nor
# test_distributed_data_loop (on CPUs accelerate's join_uneven_inputs has no effect, so that its ranks
# really do meet in different collectives: docs/bugbench.md).
SCRIPTS = [("test_ops", 2), ("test_ops", 4), ("test_sync", 2), ("test_sync", 4), ("test_script", 2)]


@pytest.mark.parametrize(("script", "size"), SCRIPTS)
def test_accelerate_scripts(silent: Silent, size: int, script: str) -> None:
    """The distributed test scripts that ship inside the accelerate wheel."""
    pytest.importorskip("accelerate")

    def program(rank: int) -> None:
        import importlib

        importlib.import_module(f"accelerate.test_utils.scripts.{script}").main()

    env = {"ACCELERATE_USE_CPU": "true", "ACCELERATE_TORCH_DEVICE": "cpu"}
    silent(program, dp=size, env=env, timeout=150, shadow_megatron=True)


@sizes
def test_fabric_ddp(silent: Silent, size: int) -> None:
    """A Lightning Fabric DDP loop, with a reduction of the loss."""
    pytest.importorskip("lightning_fabric")

    def program(rank: int) -> None:
        import lightning_fabric
        from lightning_fabric.plugins.environments import TorchElasticEnvironment
        from lightning_fabric.strategies import DDPStrategy

        strategy = DDPStrategy(
            process_group_backend="gloo", cluster_environment=TorchElasticEnvironment()
        )
        fabric = lightning_fabric.Fabric(accelerator="cpu", strategy=strategy, devices=size)
        fabric.launch()
        model = torch.nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = fabric.setup(model, optimizer)
        for _ in range(3):
            loss = model(torch.randn(4, 8)).square().mean()
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            fabric.all_reduce(loss)
            fabric.barrier()

    silent(program, dp=size, shadow_megatron=True)


@sizes
def test_torchmetrics_synchronisation(silent: Silent, size: int) -> None:
    """States of equal and of unequal shape are gathered and reduced at compute()."""
    pytest.importorskip("torchmetrics")

    def program(rank: int) -> tuple[float, float]:
        from torchmetrics import CatMetric, MeanMetric

        mean, cat = MeanMetric(), CatMetric()
        for value in range(rank + 1):
            mean.update(float(value))
            cat.update(torch.tensor([float(value)]))
        return mean.compute().item(), cat.compute().sum().item()

    results = silent(program, dp=size, shadow_megatron=True)
    assert len(set(results)) == 1


def test_megatron_parallel_state_and_mappings(silent: Silent) -> None:
    """The real megatron-core: groups of a tp2 × cp2 world, tensor-parallel mappings with autograd."""
    pytest.importorskip("megatron.core.tensor_parallel")

    def program(rank: Any) -> None:
        from megatron.core import parallel_state
        from megatron.core.tensor_parallel import mappings

        assert parallel_state.get_tensor_model_parallel_world_size() == 2
        x = torch.full((4, 4), float(rank), requires_grad=True)
        y = mappings.copy_to_tensor_model_parallel_region(x)
        y = mappings.reduce_from_tensor_model_parallel_region(y)
        y.sum().backward()
        group = parallel_state.get_data_parallel_group(with_context_parallel=True)
        dist.all_reduce(torch.ones(2), group=group)

    silent(program, tp=2, cp=2, timeout=120)
