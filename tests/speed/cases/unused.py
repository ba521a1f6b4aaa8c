"""What the plugin costs a session that asks for no world."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, added, in_turns
from tests.speed._pytest_run import timed

TEST = "def test_nothing():\n    pass\n"
CONFTEST = """
import pathlib, sys
def pytest_unconfigure():
    pathlib.Path("torch").write_text(str(int("torch" in sys.modules)))
"""
WITHIN = 60.0


def measure(run: Run) -> Measured:
    """One test that does nothing, with the plugin and with ``-p no:collectives``, in turns."""
    cpus: dict[str, list[float]] = {"with": [], "without": []}
    torch: list[float] = []
    with tempfile.TemporaryDirectory(prefix="tests-speed-") as name:
        folder = Path(name)
        (folder / "test_nothing.py").write_text(TEST)
        (folder / "conftest.py").write_text(CONFTEST)

        def take(which: str, *arguments: str) -> float:
            seconds, cpu, _ = timed([*arguments, "test_nothing.py"], folder, WITHIN)
            cpus[which].append(cpu)
            if which == "with":
                torch.append(float((folder / "torch").read_text()))
            return seconds

        takers: dict[str, Callable[[], float]] = {
            "with": lambda: take("with"),
            "without": lambda: take("without", "-p", "no:collectives"),
        }
        run.progress.step("once, not counted")
        for taker in takers.values():
            taker()
        for values in cpus.values():
            values.clear()
        taken = in_turns(takers, dict.fromkeys(takers, run.rounds(15)), run.progress.step)
    figures = {name: Sample.of(values) for name, values in taken.items()}
    figures |= {f"{name}_cpu": Sample.of(values) for name, values in cpus.items()}
    figures["torch_imported"] = Sample.of(torch, "")
    return Measured(
        figures,
        [
            Target("unused: added wall time", added(figures, "with", "without"), 50, "ms"),
            Target("unused: added CPU time", added(figures, "with_cpu", "without_cpu"), 50, "ms"),
            Target("unused: torch is imported", max(torch), 0, ""),
        ],
        ("Differences are the medians of those within each round.",),
    )
