"""``python -m tests.bugbench.level2 [--all] [--only dp_cp] [--operator drop] [--json FILE] [-v]``."""

from __future__ import annotations

import argparse
import ast
import collections
import json
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Rank, World, WorldError
from tests.bugbench.level2 import steps
from tests.bugbench.level2.mutate import EQUIVALENT, SUBJECTS, Mutant, Subject, mutants, some_of

TIMEOUT = 8.0
COUNT = 25
ATOL = 1e-5


@dataclass(frozen=True)
class Outcome:
    """What was said of one mutant, or of the step itself."""

    kind: str
    """Of the first failing finding; empty where there is none."""
    summary: str
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the run failed, as it has to for a mutant."""
        return bool(self.kind)


def _on_rank(rank: Rank, tree: ast.Module, path: str, step: str, right: list[steps.Values]) -> None:
    """Run the step that ``tree`` holds, and have its values checked."""
    import harness

    module: dict[str, Any] = {"__name__": steps.__name__, "__file__": path}
    exec(compile(tree, path, "exec"), module)
    got: steps.Values = module[step](rank)
    for name, value in got.items():
        harness.expect(name, value, right[rank][name], rtol=ATOL, atol=ATOL)


def run(subject: Subject, tree: ast.Module) -> Outcome:
    """Run a step, mutated or not, on a world of its own."""
    right: list[steps.Values] = getattr(steps, subject.reference)()
    options: dict[str, Any] = {**subject.world, "timeout": TIMEOUT}
    started = time.monotonic()
    kind = summary = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with World(**options) as world:
                world.run(_on_rank, tree, subject.path, subject.step, right)
        except WorldError as error:
            kind = error.findings[0].kind if error.findings else "error"
            summary = str(error).splitlines()[0]
        except RuntimeError as error:
            # The tool failed, not the program: the mutant is not killed.
            summary = f"RuntimeError: {error}"
    return Outcome(kind, summary, time.monotonic() - started)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:78.78}", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Result:
    """One step: how it fared itself, and its mutants."""

    subject: Subject
    unmutated: Outcome
    outcomes: list[tuple[Mutant, Outcome]]

    @property
    def counted(self) -> list[tuple[Mutant, Outcome]]:
        """All but the equivalent ones."""
        return [(m, o) for m, o in self.outcomes if m.name not in EQUIVALENT]

    @property
    def survivors(self) -> list[tuple[Mutant, Outcome]]:
        """Faulty, and not failed."""
        return [(m, o) for m, o in self.counted if not o.failed]

    @property
    def false_alarms(self) -> list[tuple[Mutant, Outcome]]:
        """As right as the step, and failed."""
        return [(m, o) for m, o in self.outcomes if m.name in EQUIVALENT and o.failed]

    @property
    def rate(self) -> float:
        """The share of the faulty mutants that failed."""
        counted = self.counted
        return 1 - len(self.survivors) / len(counted) if counted else 1.0


def run_subject(subject: Subject, count: int | None = COUNT, operator: str = "") -> Result:
    """The step itself and ``count`` of its mutants (None: all) whose operator begins as asked."""
    outcomes = []
    some = mutants(subject) if count is None else some_of(subject, count)
    chosen = [m for m in some if m.operator.startswith(operator)]
    unmutated = run(subject, subject.tree())
    for number, mutant in enumerate(chosen, 1):
        _progress(f"{number}/{len(chosen)} {mutant.name}")
        outcomes.append((mutant, run(subject, mutant.tree)))
    _progress("")
    return Result(subject, unmutated, outcomes)


def report(result: Result, *, verbose: bool) -> None:
    """Print the kill rate, what killed, and every mutant that is not as it should be."""
    step = result.subject.step
    counted, equivalent = result.counted, len(result.outcomes) - len(result.counted)
    state = "clean" if not result.unmutated.summary else f"NOT CLEAN: {result.unmutated.summary}"
    print(
        f"{step}: {len(counted) - len(result.survivors)} of {len(counted)} mutants killed "
        f"({result.rate:.1%}), {equivalent} equivalent; unmutated: {state}"
    )
    kinds = collections.Counter(o.kind for _, o in counted if o.failed)
    print("  killed by: " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    for mutant, outcome in result.outcomes:
        where = f"{mutant.name} (line {mutant.line})"
        if mutant.name in EQUIVALENT:
            print(f"  equivalent: {where}: {EQUIVALENT[mutant.name]}")
            if outcome.failed:
                print(f"    FALSE ALARM: {outcome.summary}")
        elif not outcome.failed:
            print(f"  SURVIVED: {where} {outcome.summary}")
        elif verbose:
            print(f"  killed in {outcome.seconds:.1f} s: {where}\n    {outcome.summary}")


def as_json(results: list[Result]) -> dict[str, Any]:
    """All of it as data."""
    return {
        result.subject.step: {
            "rate": result.rate,
            "mutants": len(result.counted),
            "survivors": [m.name for m, _ in result.survivors],
            "false_alarms": [m.name for m, _ in result.false_alarms],
            "equivalent": {
                m.name: EQUIVALENT[m.name] for m, _ in result.outcomes if m.name in EQUIVALENT
            },
            "unmutated": result.unmutated.summary or "clean",
            "outcomes": {
                m.name: {"kind": o.kind, "summary": o.summary, "seconds": o.seconds}
                for m, o in result.outcomes
            },
        }
        for result in results
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the mutants and print the kill rate; 0 if all died and nothing right was failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bugbench.level2", description=__doc__)
    parser.add_argument("--only", default="", help="the step whose name begins so: dp_cp, pp_tp")
    parser.add_argument("--all", action="store_true", help=f"all mutants, not about {COUNT} a step")
    parser.add_argument("--operator", default="", help="mutants of this operator only: drop, swap")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the killed ones too")
    options = parser.parse_args(arguments)
    subjects = [s for s in SUBJECTS if s.step.startswith(options.only)]
    if not subjects:
        parser.error(f"--only: no step begins with {options.only!r}")
    results = []
    for subject in subjects:
        count = None if options.all or options.operator else COUNT
        results.append(run_subject(subject, count, options.operator))
        report(results[-1], verbose=options.verbose)
    if options.json:
        options.json.write_text(json.dumps(as_json(results), indent=1))
    unclean = [r for r in results if r.unmutated.summary or r.survivors or r.false_alarms]
    return 1 if unclean else 0


if __name__ == "__main__":
    sys.exit(main())
