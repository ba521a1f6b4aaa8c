"""The score of the explainer: does it name the line marked ``# GUARD``, and never another?

``python -m tests.bugbench.explaining [--only A,F,H,R] [--seeds N]``
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from tests.bugbench.program import Program, programs
from tests.bugbench.running import Found, run


@dataclass(frozen=True)
class Told:
    """What the explainer said of one faulty program with one seed."""

    program: Program
    seed: int
    found: Found

    @property
    def line(self) -> tuple[str, int] | None:
        """The line that it named."""
        why = self.found.explanation
        place = None if why is None else why.divergence
        return None if place is None else (place.file, place.line)

    @property
    def verdict(self) -> str:
        """``right``, ``wrong``, ``not found``; ``none`` where there is no guard and none was named."""
        if self.line is None:
            return "not found" if self.program.guards else "none"
        return "right" if self.line in self.program.guards else "wrong"

    @property
    def reason(self) -> str:
        """Why nothing was named."""
        why = self.found.explanation
        return "" if why is None else why.reason


def told(program: Program, seed: int) -> Told:
    """Run the faulty program with the explainer."""
    return Told(program, seed, run(program, fixed=False, seed=seed, explain="always"))


def main() -> int:
    """Print what was said; the exit code is 1 if a line was wrong, or too few were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.bugbench.explaining")
    parser.add_argument("--only", default="", help="ids that start so, separated by commas")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    all_told = []
    for program in programs(options.only):
        if program.is_trap:
            continue
        for seed in range(options.seeds):
            each = told(program, seed)
            all_told.append(each)
            if each.verdict != "none":
                why = each.found.explanation
                seconds = 0.0 if why is None else why.seconds
                name = f"{program.id}_{program.title}"
                line = "" if each.line is None else f"line {each.line[1]}"
                print(f"{name:42} {each.verdict:10} {line or each.reason} ({seconds:.2f} s)")
    counts = {
        name: sum(each.verdict == name for each in all_told)
        for name in ("right", "wrong", "not found", "none")
    }
    guarded = counts["right"] + counts["not found"]
    guarded += sum(each.verdict == "wrong" and bool(each.program.guards) for each in all_told)
    share = counts["right"] / guarded if guarded else 1.0
    print(f"{counts}; of {guarded} with a guard {share:.1%} named")
    return int(counts["wrong"] > 0 or share < 0.95)


if __name__ == "__main__":
    sys.exit(main())
