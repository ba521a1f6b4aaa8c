"""The verdict alone: how many records a second, whatever their number, and in what memory."""

from __future__ import annotations

from tests.speed._bench import Bench
from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns

FEW, SOME, MANY = 10**4, 10**5, 10**6
NAMES = {FEW: "rate_1e4", SOME: "rate_1e5", MANY: "rate_1e6"}


def measure(run: Run) -> Measured:
    """Runs of three lengths in turns; the longest each in a fresh process, for its memory."""
    bends: list[float] = []
    growth: list[float] = []
    blocks: list[float] = []
    with run.benches("judge") as (bench,):

        def rate(records: int) -> float:
            return float(bench.ask("judged", records=records)["rate"])

        def longest() -> float:
            with Bench("judge") as fresh:
                few = [float(fresh.ask("judged", records=FEW)["rate"]) for _ in range(5)]
                found = fresh.ask("judged", records=MANY)
                few += [float(fresh.ask("judged", records=FEW)["rate"]) for _ in range(5)]
            bends.append(Sample.of(few, "records/s").median / float(found["rate"]))
            growth.append(float(found["growth"]))
            blocks.append(float(found["blocks"]))
            return float(found["rate"])

        takers = {
            NAMES[FEW]: lambda: rate(FEW),
            NAMES[SOME]: lambda: rate(SOME),
            NAMES[MANY]: longest,
        }
        rounds = {NAMES[FEW]: run.rounds(12), NAMES[SOME]: run.rounds(6), NAMES[MANY]: run.few(3)}
        taken = in_turns(takers, rounds, run.progress.step)
    figures = {name: Sample.of(values, "records/s") for name, values in taken.items()}
    figures["growth_1e5_to_1e6"] = memory = Sample.of(growth, "MiB")
    figures["blocks_1e5_to_1e6"] = Sample.of(blocks, "blocks")
    slowest = min(figures[name].median for name in NAMES.values())
    figures["time_1e6_by_1e4"] = bend = Sample.of(bends, "×")
    return Measured(
        figures,
        [
            Target("judge: records a second", slowest, 100_000, "/s", "higher"),
            Target("judge: time for 1e6 / 100 × time for 1e4", bend.median, 1.3, "×"),
            Target("judge: memory from 1e5 to 1e6 records", memory.median, 1, "MiB"),
        ],
        (
            "Four ranks in lockstep; all_reduces, some of them async, and messages around a ring; "
            "a fault is asked for after every four records. `time_1e6_by_1e4` is of one process, which "
            "takes the short run five times before the long one and five times after. Making the records is not counted. Rates "
            "are by CPU time. Python takes memory from the system a MiB at a time, so growth is "
            "told to a MiB; `blocks` are the objects that it holds more.",
        ),
    )
