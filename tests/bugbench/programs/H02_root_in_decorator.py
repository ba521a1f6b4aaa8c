"""A decorator of another module broadcasts a result; each rank is told to take its own."""

from pathlib import Path

import torch

from tests.bugbench.program import Expect, Ground
from tests.bugbench.programs._H02_distributed_utils import from_rank

WORLD = {"dp": 2}
EXPECT = Expect("argument_mismatch", ranks=(0, 1), detail="root")
ALSO_MARKED = (str(Path(__file__).with_name("_H02_distributed_utils.py")),)


def main(rank: int, world: Ground) -> list[float]:
    leader = 0 if world.fixed else int(rank)

    @from_rank(src=leader)
    def permutation() -> torch.Tensor:
        return torch.arange(4.0) + rank

    return permutation().tolist()


def CHECK(results: list[list[float]]) -> None:
    assert [[0.0, 1.0, 2.0, 3.0]] * 2 == results
