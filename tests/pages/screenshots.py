"""The pictures of docs/images, from real worlds: ``python -m tests.pages.screenshots [FOLDER]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harness.report import Run
from harness.report._json import Report
from harness.report._page import Row, index, page
from tests.pages import samples
from tests.pages._png import smaller
from tests.pages.chromium import Browser, found

FOLDER = Path(__file__).parents[2] / "docs" / "images"
MADE = "2025-06-01 12:00"


def row(run: Run) -> Row:
    """What the index says of a run."""
    finding = run.findings[0]
    stem = run.test.rpartition("/")[2].replace(".py::", "-")
    return Row(
        run.test,
        finding.summary,
        finding.kind,
        finding.ranks,
        " ".join(f"{axis}={size}" for axis, size in run.layout.items() if size > 1),
        run.ended - run.began,
        tuple(
            (n, f"{stem}.{e}") for n, e in (("page", "html"), ("json", "json"), ("trace", "trace"))
        ),
    )


def main(folder: Path) -> None:
    """Make the runs, and a picture of each page."""
    path = found()
    if path is None:
        raise SystemExit("no Chromium found")
    folder.mkdir(parents=True, exist_ok=True)
    runs = {"skip": samples.skip(), "deadlock": samples.cycle(), "64-ranks": samples.large()}
    with Browser(path) as browser, tempfile.TemporaryDirectory() as scratch:

        def take(
            name: str, text: str, size: tuple[int, int], scheme: str, script: str = ""
        ) -> None:
            file = Path(scratch, f"{name}.html")
            file.write_text(text, encoding="utf-8")
            tab = browser.open(file, width=size[0], height=size[1], scheme=scheme)
            if script:
                tab.run(script)
            target = folder / f"report-{name}.png"
            target.write_bytes(smaller(tab.picture()))
            print(f"{target}: {target.stat().st_size / 1024:.0f} kB")
            tab.close()

        pages = {n: page(Report(run.test, (run,), made=MADE)) for n, run in runs.items()}
        for scheme in ("light", "dark"):
            take(f"skip-{scheme}", pages["skip"], (1200, 800), scheme)
            take(f"deadlock-{scheme}", pages["deadlock"], (1200, 820), scheme)
        take("64-ranks-light", pages["64-ranks"], (1400, 900), "light")
        take("64-ranks-fit-dark", pages["64-ranks"], (1400, 900), "dark", "chart.fit()")
        take("by-time-light", pages["skip"], (1200, 800), "light", "mode('time')")
        take("index-light", index([row(run) for run in runs.values()], MADE), (1100, 480), "light")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
