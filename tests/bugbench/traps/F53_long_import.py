"""One rank imports a module that takes more than a second; the other waits for it in a collective."""

import importlib
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from tests.bugbench.program import Ground

WORLD = {"dp": 2}

SOURCE = """
import time

time.sleep(1.2)  # builds its tables
TABLE = [i * i for i in range(10)]
"""


def table() -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lookup_tables.py").write_text(SOURCE)
        sys.path.insert(0, folder)
        try:
            found: list[int] = importlib.import_module("lookup_tables").TABLE
        finally:
            sys.path.remove(folder)
    return found


def main(rank: int, world: Ground) -> list[int]:
    values = torch.tensor(table() if rank == 0 else [0] * 10)
    dist.broadcast(values, src=0)
    return values.tolist()


def CHECK(results: list[list[int]]) -> None:
    assert [[i * i for i in range(10)]] * 2 == results
