"""One rank fails, and the teardown of its fixture enters a barrier while the other is elsewhere."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from tests.bugbench.program import Expect, Ground

WORLD = {"dp": 2}
EXPECT = Expect("rank_raised", ranks=(1,), text="teardown")


def teardown(folder: str) -> None:
    dist.barrier()
    shutil.rmtree(folder)


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    folder = tempfile.mkdtemp()
    try:
        yield Path(folder)
    finally:
        teardown(folder)


def main(rank: int, world: Ground) -> float:
    with workspace() as folder:
        path = folder / "shard.txt"
        if rank == 0 or world.fixed:
            path.write_text(str(rank + 1))
        value = torch.tensor(float(path.read_text()))  # GUARD # BUG
        dist.all_reduce(value)
    return value.item()


def CHECK(results: list[float]) -> None:
    assert [3.0, 3.0] == results
