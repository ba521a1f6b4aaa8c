"""Hooks start a reduction for each gradient in backward, and autograd waits at its end."""

from typing import Any

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}


class Scale(torch.autograd.Function):
    """A product whose backward overlaps a reduction with a product, as tensor parallelism does."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value, weight)
        return value * weight

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        value, weight = ctx.saved_tensors
        grad_value = grads[0] * weight
        work = dist.all_reduce(grad_value, async_op=True)
        grad_weight = grads[0] * value
        work.wait()
        return grad_value, grad_weight


class Reducer:
    def __init__(self, model: torch.nn.Module) -> None:
        self.works: list[Any] = []
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(self.launch)  # type: ignore[no-untyped-call]

    def launch(self, parameter: torch.Tensor) -> None:
        if not self.works:
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self.finish)
        assert parameter.grad is not None
        self.works.append(dist.all_reduce(parameter.grad, async_op=True))

    def finish(self) -> None:
        for work in self.works:
            work.wait()
        self.works.clear()


def main(rank: int, world: Ground) -> list[float]:
    model = torch.nn.Linear(2, 1)
    Reducer(model)
    inputs = torch.full((1, 2), 1.0 + rank, requires_grad=True)
    weight = torch.ones(1, requires_grad=True)
    for _ in range(2):
        model.zero_grad()
        hidden = Scale.apply(inputs, weight)  # type: ignore[no-untyped-call]
        model(hidden).sum().backward()
    assert model.weight.grad is not None
    assert model.bias.grad is not None
    return [model.weight.grad[0, 0].item(), model.bias.grad[0].item()]


def CHECK(results: list[list[float]]) -> None:
    assert [[3.0, 2.0]] * 2 == results
