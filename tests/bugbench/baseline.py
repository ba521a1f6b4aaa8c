"""The same programs without our recorder: on plain gloo, and under torch's own checker.

``plain`` is what a user of spawned gloo processes sees: an error on some rank, a signal, a hang
until the deadline, or nothing. ``detail`` is the same under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``, whose
"Detected mismatch between collectives" counts as the right class where a mismatch is expected.
Neither names a line, so nothing is located.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

from harness import World, WorldError
from tests.bugbench.program import Ground, Program, on_rank

DEADLINE = 4.0
MISMATCHES = frozenset({"call_mismatch", "argument_mismatch"})


@dataclass(frozen=True)
class Seen:
    """What one run showed: M mismatch named, E error, X signal or exit, T deadline, S silent."""

    program: Program
    fixed: bool
    letter: str
    seconds: float

    @property
    def faulty(self) -> bool:
        """Whether there was something to see."""
        return not self.fixed and not self.program.is_trap

    @property
    def right_class(self) -> bool:
        """Whether the mismatch that is there was named as one."""
        kinds = {kind for e in self.program.expect for kind in e.kind.split("|")}
        return self.letter == "M" and bool(kinds & MISMATCHES)


def run_plain(program: Program, *, fixed: bool, seed: int, detail: bool) -> Seen:
    """Run it unrecorded."""
    env = {**program.world.get("env", {})}
    if detail:
        env["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    options = {**program.world, "env": env, "timeout": DEADLINE, "seed": seed, "record": False}
    world = World(**options)
    ground = Ground(fixed, world.world_size, seed)
    started = time.monotonic()
    letter = "S"
    try:
        with world:
            world.run(functools.partial(on_rank, main=program.main, ground=ground))
    except WorldError as error:
        kinds = {f.kind for f in error.findings}
        text = str(error)
        if "Detected mismatch between collectives" in text:
            letter = "M"
        elif "straggler" in kinds or "Timed out waiting" in text:
            letter = "T"
        else:
            letter = "X" if "rank_died" in kinds else "E"
    except BaseException as error:  # pytest.skip in a rank
        letter = "S" if type(error).__name__ == "Skipped" else "E"
    return Seen(program, fixed, letter, time.monotonic() - started)


def table(name: str, seen: list[Seen]) -> str:
    """One row by category, as our own table has them."""
    lines = [
        f"{name:9}{'faulty':>7}{'correct':>8}{'any':>7}{'class':>7}{'located':>8}{'false':>6}"
        f"{'conclusive':>11}   letters of the faulty ones"
    ]
    categories = sorted({s.program.category for s in seen})
    for category in [*categories, "total"]:
        rows = [s for s in seen if category in ("total", s.program.category)]
        faulty = [s for s in rows if s.faulty]
        correct = [s for s in rows if not s.faulty]
        n = len(faulty) or 1
        letters = "" if category == "total" else "".join(s.letter for s in faulty)
        lines.append(
            f"{category:9}{len(faulty):7}{len(correct):8}"
            f"{sum(s.letter != 'S' for s in faulty) / n:7.1%}"
            f"{sum(s.right_class for s in faulty) / n:7.1%}{0:8.1%}"
            f"{sum(s.letter != 'S' for s in correct):6}"
            f"{sum(s.letter != 'T' for s in rows) / (len(rows) or 1):11.1%}   {letters}"
        )
    return "\n".join(lines)


def as_json(seen: list[Seen]) -> dict[str, dict[str, str]]:
    """The letter of each program, faulty and correct."""
    data: dict[str, dict[str, str]] = {}
    for s in seen:
        data.setdefault(s.program.id, {})["faulty" if s.faulty else "correct"] = s.letter
    return data
