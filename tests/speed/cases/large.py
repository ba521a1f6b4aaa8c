"""64 ranks: their start, all dp, cp and dp-cp groups, the whitening laws, and the end."""

from __future__ import annotations

from tests.speed._case import Run
from tests.speed._measure import Measured, Sample, Target, in_turns, ratio

PARTS = ("start_and_groups", "laws", "end", "without_laws", "pss")


def measure(run: Run) -> Measured:
    """world(32, 2) and as many forked ranks, in turns; never both alive."""
    parts: dict[str, list[float]] = {}
    with run.benches("large_ours", "large_bare") as benches:

        def take(peer: int, name: str) -> float:
            found: dict[str, float] = benches[peer].ask("large", within=180)
            for part in PARTS:
                parts.setdefault(f"{name}_{part}", []).append(found[part])
            return found["whole"]

        takers = {"ours": lambda: take(0, "ours"), "bare_fork": lambda: take(1, "bare_fork")}
        taken = in_turns(takers, dict.fromkeys(takers, run.few(5)), run.progress.step)
    figures = {name: Sample.of(values, "s") for name, values in taken.items()}
    for part in PARTS:
        unit = "MiB" if part == "pss" else "s"
        for name in takers:
            figures[f"{name}_{part}"] = Sample.of(parts[f"{name}_{part}"], unit)
    bare = ratio(figures, "ours_without_laws", "bare_fork_without_laws")
    return Measured(
        figures,
        [
            Target(
                "large: ours / bare_fork, 64 ranks", ratio(figures, "ours", "bare_fork"), 1.5, "×"
            ),
            Target("large: memory of a rank", figures["ours_pss"].median, 30, "MiB"),
        ],
        (
            "Both run one and the same checks of `harness.suites.whitening` on a correct function, "
            "the one on `harness.World`, the other on forked ranks that take functions from a pipe "
            "and have made their groups with `new_group`; a second world of one rank, for the laws "
            "that compare with it, is counted in `laws`. "
            f"Without the laws ours / bare_fork = {bare:.2f}. Memory is PSS, the mean over the "
            "ranks, while both forking processes are alive.",
        ),
    )
