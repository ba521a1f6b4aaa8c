"""The first world of a session, which waits for torch's import, against that import alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

from tests.speed._bench import ROOT, BenchError
from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, added, in_turns

WITHIN = 60.0

WORLD = """
import harness
def one(rank):
    import torch, torch.distributed as dist
    tensor = torch.full((4,), float(rank) + 1)
    dist.all_reduce(tensor)
    return tensor[0].item()
with harness.World(2, 2) as world:
    assert world.run(one) == [10.0] * 4
"""

SCRIPTS = {"first_world": WORLD, "import_torch": "import torch"}


def measure(run: Run) -> Measured:
    """Fresh processes of each kind, in turns."""
    takers = {name: partial(_seconds, code) for name, code in SCRIPTS.items()}
    run.progress.step("once, not counted")
    for taker in takers.values():
        taker()
    taken = in_turns(takers, dict.fromkeys(takers, run.few(10)), run.progress.step)
    figures = {name: Sample.of(values, "s") for name, values in taken.items()}
    more = added(figures, "first_world", "import_torch")
    return Measured(
        figures,
        [Target("first: first world − import torch", more, 0.4, "s")],
        ("The difference is the median of those within each round.",),
    )


def _seconds(code: str) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"a script did not end within {WITHIN:g} s:\n{code}") from None
    seconds = time.perf_counter() - started
    if done.returncode:
        raise BenchError(f"a script ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return seconds
