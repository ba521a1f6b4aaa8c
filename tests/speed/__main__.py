"""``python -m tests.speed [--only CASE ...] [--rounds N] [--json FILE] [--markdown FILE]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from tests.speed._bench import BenchError
from tests.speed._case import Progress, Run
from tests.speed._measure import Measured
from tests.speed._report import as_json, text, write_markdown

CASES = (
    "start",
    "live",
    "first",
    "recorded",
    "verdict",
    "explain",
    "large",
    "judge",
    "example",
    "unused",
)


def chosen(parser: argparse.ArgumentParser, only: list[str]) -> list[str]:
    """The cases to measure, in their own order; ends with an error at an unknown one."""
    wanted = {name for part in only for name in part.split(",") if name}
    unknown = sorted(wanted - set(CASES))
    if unknown:
        parser.error(f"--only: no case is named {unknown[0]!r}; there are {', '.join(CASES)}")
    return [name for name in CASES if not wanted or name in wanted]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; 0 if all could be measured, whatever the figures are."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, help="rounds of what is cheap; at most, of the rest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to this file")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds: at least 1, not {options.rounds}")
    cases = chosen(parser, options.only)
    progress = Progress()
    run = Run(progress, options.rounds)
    measured: dict[str, Measured] = {}
    failed = False
    for name in cases:
        progress.case = name
        try:
            module = importlib.import_module(f"tests.speed.cases.{name}")
            measured[name] = module.measure(run)
        except BenchError as error:
            failed = True
            progress.end()
            print(f"{name} could not be measured: {error}", file=sys.stderr)
            continue
        progress.end()
        print(text(name, measured[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(as_json(measured), indent=1))
    if options.markdown:
        write_markdown(options.markdown, measured)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
