"""What a program of the bench is: its header, its `main`, and how it is read.

A program is one file. Its module docstring says what it does; ``EXPECT`` says what a perfect tool
finds (empty for a trap); ``WORLD`` is its shape; the guilty lines end in ``# BUG``. Where ranks take
different ways, the line that decides it is marked ``# GUARD``.
``main(rank, world)`` runs on every rank; ``world.fixed`` is the switch to the corrected twin.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDERS = ("programs", "traps", "reports")


@dataclass(frozen=True)
class Expect:
    """One finding that is right for a program.

    ``kind`` may be several, joined by ``|``, where the issue allows either. ``ranks`` are those at
    fault. ``detail`` narrows the kind; ``text`` must be in the report. ``level`` is that of the
    finding: a suspicion that cannot be proved is expected as a warning.
    """

    kind: str
    ranks: tuple[int, ...]
    detail: str = ""
    level: str = "error"
    text: str = ""


@dataclass
class Ground:
    """What a program is handed beside its rank: the switch, the size, and a random delay."""

    fixed: bool
    size: int
    seed: int
    _random: random.Random | None = field(default=None, repr=False)

    def pause(self, rank: int, longest: float = 0.05) -> None:
        """Sleep for a random time that depends on the seed and the rank."""
        if self._random is None:
            self._random = random.Random(self.seed * 1009 + int(rank))
        time.sleep(self._random.uniform(0.0, longest))


Main = Callable[[Any, Ground], Any]


def on_rank(rank: Any, main: Main, ground: Ground) -> Any:
    """What runs on a rank: a random delay, then the program.

    It is here and not beside `run`, for a rank imports the module that it comes from: four that
    import all of ours on two cores are half a second apart.
    """
    ground.pause(rank)
    return main(rank, ground)


@dataclass(frozen=True)
class Program:
    """A program of the bench, read from its module."""

    id: str
    title: str
    folder: str
    main: Main
    expect: tuple[Expect, ...]
    world: dict[str, Any]
    marks: tuple[tuple[str, int], ...]
    guards: tuple[tuple[str, int], ...]
    also: tuple[str, ...]
    check: Callable[[list[Any]], None] | None
    """``CHECK(results)``: asserts on the results of the twin, so that it is known to be right."""

    @property
    def category(self) -> str:
        """The letter of the category; reports are one of their own."""
        return self.id[0]

    @property
    def is_trap(self) -> bool:
        """Whether it is a correct program with no faulty form."""
        return not self.expect


def read(module: ModuleType) -> Program:
    """The program in a module. Raises ValueError where its header is not whole."""
    name = module.__name__.rpartition(".")[2]
    doc = (module.__doc__ or "").strip()
    folder = module.__name__.split(".")[-2]
    if not doc or not hasattr(module, "main"):
        raise ValueError(f"{name}: a program has a docstring and a main(rank, world)")
    files = [Path(module.__file__ or ""), *map(Path, getattr(module, "ALSO_MARKED", ()))]
    marks, guards = _marked(files, "# BUG"), _marked(files, "# GUARD")
    expect = getattr(module, "EXPECT", ())
    expect = expect if isinstance(expect, tuple) else (expect,)
    if expect and not marks:
        raise ValueError(f"{name}: a faulty program marks its guilty lines with # BUG")
    return Program(
        id=name.partition("_")[0],
        title=name.partition("_")[2],
        folder=folder,
        main=module.main,
        expect=expect,
        world=dict(getattr(module, "WORLD", {"dp": 2})),
        marks=marks,
        guards=guards,
        also=tuple(getattr(module, "ALSO", ())),
        check=getattr(module, "CHECK", None),
    )


def _marked(files: list[Path], mark: str) -> tuple[tuple[str, int], ...]:
    return tuple(
        (str(file), number)
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if mark in line
    )


def programs(only: str = "") -> Iterator[Program]:
    """All programs whose id starts with one of the comma-separated beginnings, in order."""
    wanted = tuple(part.strip() for part in only.split(",") if part.strip())
    for folder in FOLDERS:
        package = importlib.import_module(f"tests.bugbench.{folder}")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
            if info.name.startswith("_") or (wanted and not info.name.startswith(wanted)):
                continue
            yield read(importlib.import_module(f"{package.__name__}.{info.name}"))
