"""What the second run adds to a failing test whose first run takes about a second."""

from __future__ import annotations

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns


def measure(run: Run) -> Measured:
    """The same failing test with and without it, in turns."""
    rounds = run.few(8)
    with run.benches("explain") as (bench,):

        def take(explain: str) -> float:
            return float(bench.ask("failing", explain=explain))

        taken = in_turns(
            {"never": lambda: take("never"), "always": lambda: take("always")},
            {"never": rounds, "always": rounds},
            run.progress.step,
        )
    figures = {name: Sample.of(values) for name, values in taken.items()}
    added = [a - b for a, b in zip(taken["always"], taken["never"], strict=True)]
    figures["added"] = Sample.of(added)
    target = Target("explain: added to a test of 1 s", figures["added"].median / 1000, 2.0, "s")
    return Measured(
        figures, [target], ("A small model trained for a second at dp 2 and cp 2, then a skip.",)
    )
