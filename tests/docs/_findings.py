"""The kinds of finding, each with a program that has it: what the reference of findings is made of.

A module of ``tests/docs/findings`` is one kind. Its docstring has the title (one line), the meaning,
then ``Level:``, ``Fix:`` and, where the kind has details, ``Details:``; all are Markdown. ``WORLD`` is
what `harness.World` is given; ``faulty`` has the fault, ``fixed`` is the same program put right.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Finding, World, WorldError, WorldWarning, _settings

FOLDER = Path(__file__).parent / "findings"

_SECTIONS = re.compile(r"\n\n(Level|Fix|Details):\s+")


@dataclass(frozen=True)
class Kind:
    """One kind of finding, as its module tells it."""

    name: str
    title: str
    meaning: str
    level: str
    fix: str
    details: str
    source: str
    first_line: int
    world: dict[str, Any]
    faulty: Callable[..., Any]
    fixed: Callable[..., Any]

    @property
    def detail_names(self) -> set[str]:
        """The details that its list explains."""
        heads = re.findall(r"^- ((?:`\w+`(?:, )?)+):", self.details, re.MULTILINE)
        return {name for head in heads for name in re.findall(r"`(\w+)`", head)}


@dataclass(frozen=True)
class Said:
    """What was said of a run."""

    findings: tuple[Finding, ...]
    text: str


def kinds() -> Iterator[Kind]:
    """All kinds that have a module, in the order of the alphabet."""
    for info in pkgutil.iter_modules([str(FOLDER)]):
        yield read(info.name)


def read(name: str) -> Kind:
    """The kind in a module. Raises ValueError where its docstring is not whole."""
    module = importlib.import_module(f"tests.docs.findings.{name}")
    head, *rest = _SECTIONS.split((module.__doc__ or "").strip())
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    title, _, meaning = head.partition("\n\n")
    if not title.endswith(".") or "Level" not in sections or "Fix" not in sections:
        raise ValueError(f"{name}: the docstring has a title with a full stop, Level: and Fix:")
    text = Path(str(module.__file__)).read_text()
    before, _, source = text.partition('\n"""\n\n')
    return Kind(
        name=name,
        title=" ".join(title.split()),
        meaning=meaning.strip(),
        level=" ".join(sections["Level"].split()),
        fix=sections["Fix"].strip(),
        details=sections.get("Details", "").strip(),
        source=source.rstrip(),
        first_line=before.count("\n") + 4,
        world=dict(module.WORLD),
        faulty=module.faulty,
        fixed=module.fixed,
    )


def run(kind: Kind, function: Callable[..., Any]) -> Said:
    """Run one form of the program on a world, with the options at their defaults."""
    before = _settings.use(_settings.Settings(preload=_settings.current.preload, explain="always"))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with World(**kind.world) as world:
                    world.run(function)
            except WorldError as error:
                return Said(error.findings, _without_folder(str(error)))
    finally:
        _settings.use(before)
    said = [w.message for w in caught if isinstance(w.message, WorldWarning)]
    findings = tuple(f for warning in said for f in warning.findings)
    return Said(findings, _without_folder("\n".join(map(str, said))))


def _without_folder(text: str) -> str:
    for folder in (os.path.relpath(FOLDER), str(FOLDER)):
        text = text.replace(folder + os.sep, "")
    return "\n".join(line.rstrip() for line in text.splitlines())
