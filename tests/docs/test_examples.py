"""The examples of the docs, run as a reader runs them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests.docs import _examples, _running, offline  # noqa: E402

PAGES = _examples.pages()

FIRST = (
    "README.md",
    "docs/tutorial/index.md",
    "docs/reference/command-line.md",
)
"""What everybody reads; the examples of the other pages take minutes, and are run by `tox -e examples`."""

ALL = os.environ.get("DOCS_EXAMPLES") == "all"

WITH_COMMANDS = [
    page
    for page in PAGES
    if (ALL or str(page.relative_to(ROOT)) in FIRST)
    and any(
        block.language == "console" and "not run" not in block.told
        for block in _examples.blocks(page.read_text())
    )
]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    """No example can be added that nothing looks at."""
    wrong = []
    waiting: list[str] = []
    for block in _examples.blocks(page.read_text()):
        found = _examples.problem(block)
        if found:
            wrong.append(f"{_name(page)}:{block.line}: {found}")
        if "not run" in block.told:
            continue
        if block.title.endswith(".py"):
            waiting.append(f"{_name(page)}:{block.line}: no console block after it runs this file")
        elif block.language == "console":
            waiting.clear()
    assert [] == wrong + waiting


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=_name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """Each command ends with the exit code that is said, and prints what is shown."""
    wrong = [result.wrong for result in _running.run(page, tmp_path / "repo") if result.wrong]
    assert [] == wrong, "\n\n".join(
        [f"{_name(page)}: python -m tests.docs --write mends output", *wrong]
    )


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_workflows_run_what_the_page_has_run(page: Path) -> None:
    """A pytest command in a CI workflow is one of the page's console commands."""
    blocks = list(_examples.blocks(page.read_text()))
    run = {c.command for b in blocks if b.language == "console" for c in _examples.commands(b)}
    flows = [b for b in blocks if b.title.endswith((".yml", ".yaml"))]
    found = [
        line
        for block in flows
        for line in re.findall(r"^ *- (?:run: )?(pytest .*)$", block.text, re.MULTILINE)
    ]
    assert len(found) >= len(flows)
    assert set() == set(found) - run


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_pages_name_exist(page: Path) -> None:
    """A path into the tree, in code marks, is a file or folder of the tree."""
    named = re.findall(r"`((?:harness|tests|docs|examples)/[\w./-]+)`", page.read_text())
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_the_tutorial_is_read_in_five_minutes() -> None:
    """At 200 words a minute, code and output not counted."""
    page = (_examples.DOCS / "tutorial" / "index.md").read_text()
    prose = re.sub(r"```.*?```|<!--.*?-->", "", page, flags=re.DOTALL)
    assert len(prose.split()) <= 900


def test_output_may_differ_in_times_and_where_it_is_left_out() -> None:
    """A time, the width of a rule and the lines for ``...`` are free; all else is not."""
    real = ["=== 1 failed in 0.52s ===", "a", "b", "E  skip of rank 1"]
    assert _examples.fits(["== 1 failed in 1.9s ==", "...", "E  skip of rank 1"], real)
    assert not _examples.fits(["== 1 failed in 1.9s ==", "...", "E  skip of rank 2"], real)
    assert not _examples.fits(["== 2 failed in 1.9s ==", "..."], real)
    assert not _examples.fits(["a", "b", "E  skip of rank 1"], real)


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("```python\nx = 1\n```\n", True),
        ('```python title="x.py"\nx = 1\n```\n', False),
        ("<!-- not run: it shows an idea -->\n\n```python\nx = 1\n```\n", False),
        ("<!-- not run: of another block -->\nText.\n\n```python\nx = 1\n```\n", True),
        ("```\nimport torch\n```\n", True),
        ("```text\n1 passed\n```\n", False),
        ("```console\npytest\n```\n", True),
    ],
)
def test_a_block_without_a_marker_is_found(page: str, wrong: bool) -> None:
    """A block that would not be run is refused, unless a comment right before it says why."""
    assert wrong == any(_examples.problem(block) for block in _examples.blocks(page))


def test_what_a_page_loads_from_elsewhere_is_found() -> None:
    """A font or a script of another host is refused; a link that is only followed is not."""
    page = """<link rel="stylesheet" href="https://fonts.example/f.css"><script src="a.js"></script>
    <a href="https://example.org">x</a><link rel="canonical" href="https://example.org/">
    <img src="//example.org/i.png">"""
    assert ["https://fonts.example/f.css", "//example.org/i.png"] == offline.loads(page)
