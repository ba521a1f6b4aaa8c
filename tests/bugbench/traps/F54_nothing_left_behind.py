"""A test that leaves a lot lying about is followed by others, which see none of it."""

import os
import sys
import threading
from typing import Any

import torch
import torch.distributed as dist

from harness import World
from tests.bugbench.program import Ground

WORLD = {"dp": 2}

CLEAN = {"mode": None, "dtype": "torch.float32", "path": False, "threads": 1, "sum": 3.0}


def main(rank: int, world: Ground) -> dict[str, Any]:
    total = torch.tensor(float(rank + 1))
    dist.all_reduce(total)
    seen = {
        "mode": os.environ.get("TOKENIZER_MODE"),
        "dtype": str(torch.get_default_dtype()),
        "path": "/plugins" in sys.path,
        "threads": threading.active_count(),
        "sum": total.item(),
    }
    # What careless tests leave: settings, a thread that never ends, a group, a patched function.
    os.environ["TOKENIZER_MODE"] = "slow"
    torch.set_default_dtype(torch.float64)
    sys.path.append("/plugins")
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    side = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(2), group=side)
    dist.all_reduce = lambda *_, **__: None
    return seen


def CHECK(results: list[dict[str, Any]]) -> None:
    assert [CLEAN] * 2 == results
    for _ in range(2):
        with World(dp=2) as later:
            assert [CLEAN] * 2 == later.run(main, Ground(True, 2, 0))
