"""``python -m tests.bugbench [--seeds 5] [--only A07,B] [--json FILE] [--baseline plain|detail]``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from harness import _settings
from tests.bugbench import baseline
from tests.bugbench.program import Program, programs
from tests.bugbench.running import Found, run
from tests.bugbench.scoring import Run, as_json, steadiness, table

PRELOAD = ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor")


def run_one(program: Program, *, fixed: bool, seed: int, explain: str = "never") -> Run:
    """One run; what goes wrong outside of a verdict is kept as trouble."""
    trouble = ""
    try:
        found = run(program, fixed=fixed, seed=seed, explain=explain)
        if program.check is not None and found.results is not None and (fixed or program.is_trap):
            program.check(found.results)
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}"
        found = Found((), trouble, 0.0, 0.0, False, None)
    return Run(program, seed, fixed, found, trouble)


def run_all(seeds: int, only: str, *, quiet: bool = False) -> list[Run]:
    """Every program with every seed, its faulty form and its twin."""
    todo = [
        (program, fixed, seed)
        for program in programs(only)
        for seed in range(seeds)
        for fixed in ((True,) if program.is_trap else (False, True))
    ]
    runs = []
    started = time.monotonic()
    for number, (program, fixed, seed) in enumerate(todo, 1):
        runs.append(run_one(program, fixed=fixed, seed=seed))
        if not quiet and sys.stderr.isatty():
            print(
                f"\r{number}/{len(todo)} {program.id:5} {time.monotonic() - started:5.0f} s ",
                end="",
                file=sys.stderr,
                flush=True,
            )
    if not quiet and sys.stderr.isatty():
        print(file=sys.stderr)
    return runs


def complaints(runs: list[Run]) -> list[str]:
    """One line for each run that is not as it has to be."""
    lines = []
    for each in runs:
        name = f"{each.program.id} {each.program.title} seed {each.seed}"
        got = "; ".join(f"{f.level} {f.kind} {f.ranks}: {f.summary}" for f in each.found.findings)
        if each.faulty and not each.located:
            what = "wrong place" if each.right_class else "wrong kind" if each.any else "missed"
            lines.append(f"{what}: {name}: {got or each.trouble or 'nothing was found'}")
        elif each.faulty and each.extra:
            lines.append(f"noise: {name}: {got}")
        elif each.false:
            lines.append(f"false alarm: {name} (correct): {got or each.trouble}")
        elif not each.conclusive:
            lines.append(f"inconclusive: {name}: {got}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run the bench and print the score; 0 if nothing was missed and nothing was false."""
    parser = argparse.ArgumentParser(prog="python -m tests.bugbench", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="runs of each program (default 1)")
    parser.add_argument("--only", default="", help="ids, or beginnings of ids: A07,B,R")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument(
        "--baseline",
        choices=("plain", "detail"),
        action="append",
        default=[],
        help="also run on plain gloo, or under torch's own checker (one seed; minutes)",
    )
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds: at least 1, not {options.seeds}")
    # Imports that programs make in every rank, and that take seconds there.
    _settings.use(_settings.Settings(preload=PRELOAD))
    runs = run_all(options.seeds, options.only)
    if not runs:
        parser.error(f"--only: no program's id starts with {options.only!r}")
    print(table(runs))
    wrong = complaints(runs)
    for line in wrong:
        print(line)
    unsteady = {k: v for k, v in steadiness(runs).items() if v == "sometimes"}
    if unsteady:
        print(f"not alike over the seeds: {', '.join(unsteady)}")
    data = as_json(runs)
    for name in options.baseline:
        seen = [
            baseline.run_plain(program, fixed=fixed, seed=0, detail=name == "detail")
            for program in programs(options.only)
            for fixed in ((True,) if program.is_trap else (False, True))
        ]
        print(baseline.table(name, seen))
        data[f"baseline_{name}"] = baseline.as_json(seen)
    if options.json:
        options.json.write_text(json.dumps(data, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
