"""The pages that are made from the code: the findings and the options."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.plugin._options import OPTIONS
from tests.docs import _findings
from tests.docs._findings import Kind

ALL = os.environ.get("DOCS_EXAMPLES") == "all"

DOCS = Path(__file__).parents[2] / "docs"
FINDINGS = DOCS / "reference" / "findings"
NOTE = "<!-- Made by `python -m tests.docs --write`: change what it is made from. -->"


Maker = Callable[[], str]


def pages() -> Iterator[tuple[Path, Maker]]:
    """Each generated page, and what makes its text as it is now."""
    kinds = list(_findings.kinds())
    yield FINDINGS / "index.md", functools.partial(_index, kinds)
    for kind in kinds:
        yield FINDINGS / f"{kind.name}.md", functools.partial(finding_page, kind)
    yield DOCS / "reference" / "options.md", options_page


def news(file: Path, make: Maker) -> str:
    """The text of a page that is out of date; empty where it is not.

    How far each rank came before a fault was proved is chance, so a report may differ from one run
    to the next: a page is out of date if none of three runs gives it.
    """
    stored = steady(file.read_text()) if file.exists() else ""
    text = ""
    for _ in range(3):
        text = make()
        if steady(text) == stored:
            return ""
    return text


def steady(page: str) -> str:
    """A page without what differs from one run to the next: of a report the verdict alone."""
    page = re.sub(r"\b\d+(\.\d+)? ?(s|ms|seconds)\b", "0 s", page)
    if ALL:  # the whole of the report, which a busy machine may change
        return page
    return re.sub(r"(?<=```text\n)(.*\n)(?:.*\n)*?(?=```\n)", r"\1", page)


def _index(kinds: list[Kind]) -> str:
    rows = [f"| [`{k.name}`]({k.name}.md) | {k.level} | {k.title} |" for k in kinds]
    return f"""{NOTE}

# Findings

A finding is one fault, with the ranks and lines that it is about. Its `kind` is one of the words below; it
is in `WorldError.findings`, in saved reports, and in the annotations of a CI. An *error* is proved and
fails the test. A *warning* could not be proved, or may be meant, and is a `harness.WorldWarning`
([how to filter them](../../howto/warnings.md)).

| kind | level | what happened |
|---|---|---|
{chr(10).join(rows)}

Each page has a small program with the fault, what is reported of it, and the program put right. All of
them are run by the project's tests.
"""


def finding_page(kind: Kind) -> str:
    """The page of one kind; runs its faulty program."""
    said = _findings.run(kind, kind.faulty)
    guilty = sorted(
        {
            frame.line - kind.first_line + 1
            for finding in said.findings
            for side in finding.sides
            for frame in side.stack
            if frame.file.endswith(f"{kind.name}.py")
        }
    )
    marked = f' hl_lines="{" ".join(map(str, guilty))}"' if guilty else ""
    world = ", ".join(f"{name}={value!r}" for name, value in kind.world.items())
    parts = [
        NOTE,
        f"# {kind.name}",
        kind.title,
        kind.meaning,
        f"**Level:** {kind.level}",
        "## How to fix it",
        kind.fix,
        *(["## Details", "`Finding.detail` narrows it:", kind.details] if kind.details else []),
        "## A program that has it",
        f"`faulty` has the fault, `fixed` is put right. Each runs on a world: `World({world}).run(faulty)`.",
        f'```python title="{kind.name}.py" linenums="{kind.first_line}"{marked}\n{kind.source}\n```',
        "## What is reported",
        # Warnings and tracebacks have whole paths, which are this machine's.
        "```text\n" + said.text.replace(f"{DOCS.parent}/", "") + "\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def options_page() -> str:
    """The page of the options."""
    parts = [
        NOTE,
        "# Options",
        "An argument of `world()` wins over the command line, which wins over the ini file. A value that "
        "cannot be used ends the session with one line that names the option and the fix. The head of a "
        "pytest session lists the options that were changed.",
    ]
    for option in OPTIONS:
        default = ", ".join(option.default) if option.is_list else str(option.default)
        rows = [
            f"| command line | `{option.flag}={option.metavar}` |",
            f"| ini file | `{option.name}` |",
            f"| default | {f'`{default}`' if default else 'nothing'} |",
        ]
        if option.is_list:
            rows.append("| several values | give the option again; in the ini file, one a line |")
        text = option.help[0].upper() + option.help[1:]
        parts += [f"## {option.name}", f"{text}.", "\n".join(["| | |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"
