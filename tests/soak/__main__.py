"""``python -m tests.soak [--worlds 2000] [--seed N] [--json FILE] [--keep]``."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

from tests.soak import _session
from tests.soak._report import Report, table

LONGEST_LIST = 20
LINES_EVERY = 100


class Progress:
    """A line on stderr: rewritten on a terminal, else one every hundred worlds."""

    def __init__(self, worlds: int) -> None:
        self._worlds = worlds
        self._told = 0
        self._started = time.monotonic()

    def __call__(self, done: int, wrong: int) -> None:
        """Say how far it is."""
        line = (
            f"{done}/{self._worlds} worlds, {wrong} wrong, {time.monotonic() - self._started:.0f} s"
        )
        if sys.stderr.isatty():
            print(f"\r{line} ", end="", file=sys.stderr, flush=True)
        elif done >= self._told + LINES_EVERY:
            self._told = done
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if sys.stderr.isatty():
            print(file=sys.stderr)


def soak(worlds: int, seed: int, *, keep: bool = False, quiet: bool = False) -> Report:
    """Run so many worlds in one session and report on them."""
    progress = Progress(worlds)
    silent = lambda done, wrong: None  # noqa: E731
    raw = _session.run(worlds, seed, keep=keep, progress=silent if quiet else progress)
    if not quiet:
        progress.end()
    return Report(worlds, seed, raw)


def main(arguments: list[str] | None = None) -> int:
    """Run a soak and print what it found; 0 if all was judged right and nothing leaked."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--worlds", type=int, default=2000, help="how many (default 2000)")
    parser.add_argument("--seed", type=int, help="the same seed makes the same worlds")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--keep", action="store_true", help="keep the notes and pytest's output")
    options = parser.parse_args(arguments)
    if options.worlds < 1:
        parser.error(f"--worlds: at least 1, not {options.worlds}")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    report = soak(options.worlds, seed, keep=options.keep)
    print(table(report))
    for each in report.wrong[:LONGEST_LIST]:
        print(f"\nwrong: {each}")
    if report.raw.folder:
        print(f"kept: {report.raw.folder}")
    if options.json:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
