"""A world of its own for each test: start, one all_reduce, its results, and the end."""

from __future__ import annotations

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns, ratio

CHEAP = ("ours", "bare_fork", "forkserver", "threads", "pool")
SLOW = ("spawn", "multi_process", "continuous")


def measure(run: Run) -> Measured:
    """All peers in turns; those that spawn, in few rounds."""
    many, few = run.rounds(30), run.few(3)
    with run.benches(*CHEAP, *SLOW) as benches:
        by_name = {bench.peer: bench for bench in benches}
        bare, pool = by_name["bare_fork"], by_name["pool"]
        takers = {name: bench.world for name, bench in by_name.items()}
        takers["bare_fork_cp"] = lambda: bare.ask("world", groups=["cp"])
        takers["bare_fork_groups"] = lambda: bare.ask("world", groups=["dp", "cp"])
        takers["pool_kept"] = lambda: pool.ask("kept")
        rounds = {name: few if name in SLOW else many for name in takers}
        taken = in_turns(takers, rounds, run.progress.step)
    figures = {name: Sample.of(values) for name, values in taken.items()}
    return Measured(
        figures,
        [
            Target("start: ours / bare_fork", ratio(figures, "ours", "bare_fork"), 1.5, "×"),
            Target("start: spawn / ours", ratio(figures, "spawn", "ours"), 50, "×", "higher"),
            Target(
                "start: MultiProcessTestCase / ours",
                ratio(figures, "multi_process", "ours"),
                60,
                "×",
                "higher",
            ),
        ],
        (
            "`bare_fork` makes the default group alone, `bare_fork_cp` also the cp groups, "
            "`bare_fork_groups` dp and cp groups (ours has all, and connects them when used); "
            f"ours / bare_fork_cp = {ratio(figures, 'ours', 'bare_fork_cp'):.2f}, "
            f"ours / bare_fork_groups = {ratio(figures, 'ours', 'bare_fork_groups'):.2f}.",
            "`forkserver` is Python's own with torch preloaded, `spawn` torch.multiprocessing.spawn, "
            "`multi_process` torch's MultiProcessTestCase, `continuous` a whole class of one test of "
            "its MultiProcContinuousTest, `threads` its MultiThreadedTestCase (no processes, no "
            "gloo); `pool` joins a group in processes that live on, as DeepSpeed's tests do, and "
            "`pool_kept` keeps the group too.",
        ),
    )
