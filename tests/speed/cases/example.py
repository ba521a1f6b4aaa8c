"""The whitening tests of the example repository, as they stand and with worlds that spawn."""

from __future__ import annotations

import tempfile

from tests.speed._bench import ROOT
from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, ratio
from tests.speed._pytest_run import timed

REPO = ROOT / "examples" / "rl_repo"
FILE = "tests/test_whitening.py"
SPAWNING = ("-p", "tests.speed.spawn_plugin")
WITHIN = 900.0


def measure(run: Run) -> Measured:
    """Ours before and after; the spawning run, which takes minutes, once."""
    ours, said = [], ""
    with tempfile.TemporaryDirectory(prefix="tests-speed-") as cache:
        for number in range(1, run.few(5) + 1):
            run.progress.step(f"ours {number}")
            seconds, _, said = timed(["-o", f"cache_dir={cache}", FILE], REPO, WITHIN)
            ours.append(seconds)
    run.progress.step("the same file, each run of a world spawned (minutes)")
    spawned, _, theirs = timed([*SPAWNING, FILE], REPO, WITHIN)
    figures = {"ours": Sample.of(ours, "s"), "spawn": Sample.of([spawned], "s")}
    return Measured(
        figures,
        [
            Target(
                "example: spawn / ours, whole pytest run",
                ratio(figures, "spawn", "ours"),
                30,
                "×",
                "higher",
            )
        ],
        (f"ours: {_summary(said)}; spawn: {_summary(theirs)}.",),
    )


def _summary(said: str) -> str:
    """pytest's last line, without the time: how many passed."""
    return said.strip().splitlines()[-1].partition(" in ")[0]
