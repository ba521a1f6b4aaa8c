"""From the last thing that any rank does to the verdict, in worlds of 4 and of 64 ranks."""

from __future__ import annotations

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns

PROGRAMS = ("skip", "other_op", "other_group", "cycle", "raises")
SIZES = {4: 30.0, 64: 250.0}
"""World sizes with the milliseconds within which 95 of 100 verdicts have to come."""


def measure(run: Run) -> Measured:
    """Each faulty program in each size, in turns."""
    rounds = {4: run.rounds(30), 64: run.few(5)}
    figures: dict[str, Sample] = {}
    targets = []
    with run.benches("verdict") as (bench,):

        def take(program: str, size: int) -> float:
            return float(bench.ask("to_verdict", program=program, dp=size // 2))

        takers = {
            f"{program}_{size}": lambda program=program, size=size: take(program, size)
            for size in SIZES
            for program in PROGRAMS
        }
        due = {name: rounds[int(name.rpartition("_")[2])] for name in takers}
        taken = in_turns(takers, due, run.progress.step)
    for size, most in SIZES.items():
        names = [f"{program}_{size}" for program in PROGRAMS]
        everything = [value for name in names for value in taken[name]]
        figures |= {name: Sample.of(taken[name]) for name in names}
        figures[f"all_{size}"] = Sample.of(everything)
        late = figures[f"all_{size}"].at(95)
        targets.append(Target(f"verdict: p95 at {size} ranks", late, most, "ms"))
    return Measured(figures, targets, ("`all_…` are the five programs together.",))
