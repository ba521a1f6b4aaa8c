"""Gradients are reduced one by one, those that exist; rank 1's batch never reaches one layer."""

import torch
import torch.distributed as dist
from torch import nn

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = (
    Expect("missing_participant", ranks=(1,)),
    Expect("argument_mismatch", ranks=(0, 1), detail="shape"),
)


class Model(nn.Module):
    """Two towers and a head; the second tower sees images only."""

    def __init__(self) -> None:
        super().__init__()
        self.text = nn.Linear(3, 2, bias=False)
        self.image = nn.Linear(5, 2, bias=False)
        self.head = nn.Linear(2, 1, bias=False)

    def forward(self, text: torch.Tensor, image: torch.Tensor | None) -> torch.Tensor:
        hidden = self.text(text)
        if image is not None:
            hidden = hidden + self.image(image)
        output: torch.Tensor = self.head(hidden)
        return output


def reduce_gradients(model: nn.Module, fill: bool) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:  # GUARD
            if not fill:
                continue
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)  # BUG
        parameter.grad /= dist.get_world_size()


def main(rank: int, world: Ground) -> float:
    torch.manual_seed(0)
    model = Model()
    image = torch.ones(4, 5) if rank == 0 else None
    model(torch.ones(4, 3), image).sum().backward()
    reduce_gradients(model, fill=world.fixed)
    assert model.image.weight.grad is not None
    return model.image.weight.grad.sum().item() / model.head.weight.sum().item()


def CHECK(results: list[float]) -> None:
    assert torch.allclose(torch.tensor([10.0, 10.0]), torch.tensor(results))
