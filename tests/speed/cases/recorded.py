"""What the recorder costs: an all_reduce of four floats, recorded and not; torch's DETAIL beside."""

from __future__ import annotations

from collections.abc import Callable

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, added, in_turns, ratio

CALLS = 500
DETAIL_CALLS = 50


def measure(run: Run) -> Measured:
    """Loops on live worlds of four ranks and of one, in turns; DETAIL against plain."""
    many = run.rounds(20)
    with run.benches("recorded", "bare_fork") as (ours, bare):

        def loop(size: int, record: bool, place: int) -> float:
            found = ours.ask("loop", size=size, record=record, calls=CALLS)
            return float(found[place])

        clocks: dict[str, Callable[[], float]] = {
            "recorded": lambda: loop(4, True, 0),
            "plain": lambda: loop(4, False, 0),
            "bare_fork": lambda: float(bare.ask("loop", calls=CALLS, detail=False)),
            "bare_fork_detail": lambda: float(bare.ask("loop", calls=DETAIL_CALLS, detail=True)),
        }
        cpus: dict[str, Callable[[], float]] = {
            "recorded_one_rank_cpu": lambda: loop(1, True, 1),
            "plain_one_rank_cpu": lambda: loop(1, False, 1),
        }
        for taker in (*clocks.values(), *cpus.values()):
            taker()  # not counted: a world starts
        rounds = dict.fromkeys(clocks, many) | {"bare_fork_detail": run.few(5)}
        taken = in_turns(clocks, rounds, run.progress.step)
        taken |= in_turns(cpus, dict.fromkeys(cpus, many), run.progress.step)
    figures = {name: Sample.of(values, "µs") for name, values in taken.items()}
    more = added(figures, "recorded_one_rank_cpu", "plain_one_rank_cpu")
    detail = ratio(figures, "bare_fork_detail", "bare_fork")
    return Measured(
        figures,
        [
            Target("recorded: all_reduce / plain", ratio(figures, "recorded", "plain"), 1.05, "×"),
            Target("recorded: added CPU a call, one rank", more, 15, "µs"),
        ],
        (
            f"Time of one call, over {CALLS} in a row ({DETAIL_CALLS} under DETAIL); `plain` is "
            f"ours with record=False. DETAIL / plain gloo = {detail:.1f}.",
        ),
    )
