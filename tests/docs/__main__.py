"""``python -m tests.docs --write``: bring the generated pages and the shown output up to date.

Without ``--write`` it says what is not, and ends with exit code 1. Pages may be named to look at those only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.docs import _examples, _generated, _running


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what has changed")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to run (default: all)")
    options = parser.parse_args()
    stale = [] if options.pages else _generated_pages(write=options.write)
    with tempfile.TemporaryDirectory() as folder:
        for number, page in enumerate(options.pages or _examples.pages()):
            stale += _hand_made(page.resolve(), Path(folder, str(number)), write=options.write)
    for text in stale:
        print(text)
    return 1 if stale and not options.write else 0


def _generated_pages(*, write: bool) -> list[str]:
    stale = []
    for file, make in _generated.pages():
        text = _generated.news(file, make)
        if not text:
            continue
        stale.append(f"{file}: generated anew")
        if write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return stale


def _hand_made(page: Path, folder: Path, *, write: bool) -> list[str]:
    results = list(_running.run(page, folder))
    wrong = [f"{page}: {result.wrong}" for result in results if result.wrong]
    if write and wrong:
        page.write_text(_running.rewritten(page, results))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
