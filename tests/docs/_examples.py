"""Examples in the docs: read from the pages, run, and compared with what the page shows.

The convention, in one place. In a page, every fenced block is one of

* a file: the fence has a title, ```` ```python title="test_loss.py" ````. It is written into the
  folder of the page; a later block of the same title takes its place. YAML, TOML and JSON are parsed.
* a console block, ```` ```console ````. A line that starts with ``$ `` is run there; the lines up to the next
  ``$ `` are its output. Without any, only its exit code is looked at. A line ``...`` stands for any lines.
* plain text, with no language or ``text``: nothing to run.
* anything else, only behind a comment that says why: ``<!-- not run: it installs packages -->``.

Comments in front of a console block, one a line: ``<!-- exit: 1 -->`` is the exit code of its commands
(0 if not said); ``<!-- show: ^E -->`` keeps only the output lines in which this is found. A file that the
reader need not see is a comment: ``<!-- file: NAME``, its lines, and ``-->``.

A Python file in a page has to be followed by a console block. ``python -m tests.docs --write`` puts what
commands print now in place of what no longer fits; a ``?`` as output asks for it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)(?P<rest>[^`]*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_COMMENT = re.compile(r"^ *<!-- (exit|show|not run): (.*) -->$")
_HIDDEN = re.compile(r"^<!-- file: (\S+)$")


@dataclass
class Block:
    """A fenced block, or a file in a comment. ``first`` and ``last`` are its lines' indices."""

    line: int
    language: str
    title: str
    lines: list[str]
    first: int
    last: int
    indent: str = ""
    told: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What is within, without the indentation of the page."""
        return textwrap.dedent("\n".join(self.lines) + "\n")


def pages() -> list[Path]:
    """The README and all pages that are written by hand."""
    return [
        ROOT / "README.md",
        *sorted(page for page in DOCS.rglob("*.md") if "<!-- Made by `" not in page.read_text()),
    ]


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page in order. Raises ValueError for a fence that is not closed."""
    lines = page.splitlines()
    told: dict[str, str] = {}
    at = 0
    while at < len(lines):
        fence, comment = _FENCE.match(lines[at]), _COMMENT.match(lines[at])
        hidden = _HIDDEN.match(lines[at])
        if hidden:
            end = _end(lines, at, "-->")
            yield Block(at + 1, "file", hidden[1], lines[at + 1 : end], at + 1, end)
            at = end
        elif comment:
            told[comment[1]] = comment[2]
        elif fence:
            end = _end(lines, at, fence["indent"] + fence["ticks"])
            title = _TITLE.search(fence["rest"])
            yield Block(
                at + 1,
                fence["language"],
                title[1] if title else "",
                [line.removeprefix(fence["indent"]) for line in lines[at + 1 : end]],
                at + 1,
                end,
                fence["indent"],
                told,
            )
            told = {}
            at = end
        elif lines[at].strip():
            told = {}
        at += 1


def _end(lines: list[str], start: int, mark: str) -> int:
    for at in range(start + 1, len(lines)):
        if lines[at].rstrip() == mark:
            return at
    raise ValueError(f"line {start + 1}: no {mark} ends this block")


def problem(block: Block) -> str:
    """What is wrong with the form of a block; empty where nothing is."""
    if block.language == "file" or block.told.get("not run"):
        return ""
    if block.language in ("", "text"):
        if any(re.match(r"\$ |import |from \w|def |@pytest", line) for line in block.lines):
            return "text that looks like an example: give it a language, so that it is run"
        return ""
    if block.language == "console":
        return "" if block.lines and block.lines[0].startswith("$ ") else "a command comes first"
    if block.title:
        return ""
    return 'neither a file (title="…") nor a console block, nor said why it is not run'


@dataclass
class Command:
    """A command of a console block and the output that the page shows; None where it shows none."""

    command: str
    shown: list[str] | None


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append(Command(line[2:], None))
        else:
            last = found[-1]
            last.shown = [*(last.shown or []), line]
    for command in found:
        while command.shown and not command.shown[-1].strip():
            command.shown.pop()
    return found


_HEADER = re.compile(
    r"^(platform |cachedir: |rootdir: |configfile: |plugins: |hypothesis profile|created: |"
    r"timeout: |timeout (method|func_only): )"
)
_CLOSING = re.compile(r"^(=+ .*) in [\d.]+s(?: \(\d[\d:]*\))?( =+)$")
_SECONDS = re.compile(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b")


def printed(output: str, folder: Path, show: str = "") -> list[str]:
    """The output as a page shows it: without pytest's lines on the machine, its time, and the folder."""
    kept = []
    for line in output.replace(f"{folder}/", "").replace(str(folder), ".").splitlines():
        if _HEADER.match(line) or (show and not re.search(show, line)):
            continue
        kept.append(_CLOSING.sub(r"\1\2", line).rstrip())
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return kept


def fits(shown: list[str], real: list[str]) -> bool:
    """Whether the page shows what is printed; ``...`` stands for any lines, times may differ."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(_steady(line)) + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(_steady(line) + "\n" for line in real)) is not None


def _steady(line: str) -> str:
    line = re.sub(r"={2,}|-{3,}|_{3,}", "==", _SECONDS.sub("0 s", line))
    return re.sub(r"0x[0-9a-f]+", "0x0", line).rstrip()
