"""``python -m harness``: what can be run without pytest."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

_PROGRAM = "python -m harness"
_COMMANDS = {
    "demo": "three faults of distributed code on real worlds, and what is said of them",
    "show": "print a saved report, convert it or open it in a browser",
}


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and say where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (help: {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        meant = difflib.get_close_matches(words[0], _COMMANDS, n=1)
        hint = f"did you mean {meant[0]!r}?" if meant else f"there is: {', '.join(_COMMANDS)}"
        parser.error(f"unknown command {words[0]!r}; {hint}")
    options = parser.parse_args(words)
    if options.command is None:
        parser.error(f"no command given; there is: {', '.join(_COMMANDS)}")
    if options.command == "show":
        from harness import _show

        try:
            return _show.show(options.file, options.html, options.trace, browse=options.open)
        except _show.CannotShow as error:
            print(f"{_PROGRAM} show: error: {error}", file=sys.stderr)
            return 2
    return _demo(as_json=options.json)


def _parser() -> _Parser:
    parser = _Parser(
        prog=_PROGRAM,
        description="pytest-collectives outside pytest.",
        epilog="In tests, use the pytest plugin: pytest --help lists its options under "
        "'distributed worlds'.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", metavar="command", title="commands")
    demo = commands.add_parser(
        "demo",
        help=_COMMANDS["demo"],
        description="Starts real ranks on this machine's CPU and runs three faults on them: "
        "whitening over the wrong group, a collective that one rank skips, a logged KL that is "
        "overwritten. Prints their figures, computed now, and what the tool says of each. "
        "Takes some seconds.",
        epilog="Exit code: 0 if everything came out as it must, 1 if not, 2 for wrong arguments.",
        allow_abbrev=False,
    )
    demo.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    show = commands.add_parser(
        "show",
        help=_COMMANDS["show"],
        description="Prints a report that pytest --world-report=DIR has saved, or converts it: one "
        "of its .json or .html files.",
        epilog="Exit code: 0, or 2 for a file that is no saved report.",
        allow_abbrev=False,
    )
    show.add_argument("file", metavar="FILE", help="the .json or .html file of a report")
    show.add_argument("--html", metavar="OUT", help="write it as a page")
    show.add_argument("--trace", metavar="OUT", help="write its last run as a Chrome trace")
    show.add_argument("--open", action="store_true", help="open its page in a browser")
    return parser


def _demo(*, as_json: bool) -> int:
    # Imported here: help and wrong arguments need none of it.
    from harness.demo import _check, _figures, _text

    if not as_json:
        print(_text.INTRODUCTION, flush=True)
    try:
        figures = _figures.gather()
    except RuntimeError as error:
        print(f"{_PROGRAM} demo: error: {error}", file=sys.stderr)
        return 1
    print(
        json.dumps(figures.as_json(), indent=2, ensure_ascii=False)
        if as_json
        else _text.render(figures)
    )
    wrong = _check.problems(figures)
    for problem in wrong:
        print(f"{_PROGRAM} demo: not as it must be: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
