"""One more test on ranks that stay up."""

from __future__ import annotations

from collections.abc import Callable

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns, ratio

IN_A_ROW = 10


def measure(run: Run) -> Measured:
    """Ten all_reduces on our live world and ten on a live MultiProcContinuousTest, in turns."""
    with run.benches("ours", "continuous", "bare_live") as (ours, other, bare):
        run.progress.step("first tests")
        first = other.ask("first")
        ours.ask("live")
        ours.ask("reuse")
        takers: dict[str, Callable[[], list[float]]] = {
            "ours": lambda: ours.ask("live", times=IN_A_ROW),
            "ours_reuse": lambda: ours.ask("reuse", times=IN_A_ROW),
            "bare_live": lambda: bare.ask("live", times=IN_A_ROW),
            "continuous": lambda: other.ask("tests", times=IN_A_ROW),
            "continuous_alone": lambda: other.ask("tests_alone", times=IN_A_ROW),
        }
        taken = in_turns(takers, dict.fromkeys(takers, run.rounds(20)), run.progress.step)
        last = other.ask("last")
    figures = {name: Sample.of(values) for name, values in taken.items()}
    figures["continuous_start_and_first"] = Sample.of([first])
    figures["continuous_end"] = Sample.of([last])
    return Measured(
        figures,
        [
            Target("live: run on a live world", figures["ours"].median, 5, "ms"),
            Target(
                "live: ours / MultiProcContinuousTest",
                ratio(figures, "ours", "continuous"),
                1.0,
                "×",
            ),
        ],
        (
            f"Turns of {IN_A_ROW} runs in a row. "
            "`ours_reuse` is a world asked for and given back each time, kept up by `world_reuse`; "
            "`bare_live` is forked ranks that take a pickled function from a pipe; `continuous` is "
            "a test as unittest runs it, `continuous_alone` its sending and its end alone.",
        ),
    )
