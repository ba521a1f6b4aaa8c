"""Programs made at random: legal differences between ranks all over, and one decision that matters."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest

from tests.unit.explain.following import Program, line_of, part

SEEDS = int(os.environ.get("RANDOM_PROGRAMS", "60"))

HEAD = """\
import contextlib
from tests.unit.explain.following import call
"""

CAUGHT = ["except ZeroDivisionError:", "    pass"]


class Maker:
    """Writes one program: statements that ranks may do differently, and the one that they may not."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._functions: list[list[str]] = []
        self._placed = False

    def source(self) -> str:
        """The module's text, with ``program(rank)`` last."""
        body = self._block(depth=0, loops=0, holds=True)
        lines = [HEAD]
        for function in self._functions:
            lines += ["", "", *function]
        lines += ["", "", "def program(rank):", "    x = 1", *_indented(body), "    return x", ""]
        return "\n".join(lines)

    def _block(self, depth: int, loops: int, holds: bool) -> list[str]:
        """Some statements; with ``holds`` the decision that matters is somewhere in them."""
        before = [self._legal(depth, loops) for _ in range(self._random.randint(0, 3))]
        after = [self._legal(depth, loops) for _ in range(self._random.randint(0, 2))]
        middle = [self._nested(depth, loops)] if holds else []
        return [line for part in (*before, *middle, *after) for line in part] or ["pass"]

    def _nested(self, depth: int, loops: int) -> list[str]:
        if depth >= 4 or (depth and self._random.random() < 0.35):
            return self._decision(loops)
        kind = self._random.choice(["if", "else", "for", "while", "with", "try", "def", "def"])
        if kind == "def":
            name = f"helper_{len(self._functions)}"
            function: list[str] = []
            self._functions.append(function)
            body = self._block(depth + 1, 0, holds=True)
            function += [f"def {name}(rank):", "    x = 1", *_indented(body), "    return x"]
            return [f"x += {name}(rank)"]
        inner = loops + (kind in ("for", "while"))
        body = _indented(self._block(depth + 1, inner, holds=True))
        return {
            "if": ["if x >= 0:", *body],
            "else": ["if x < 0:", "    x = 0", "else:", *body],
            "for": [f"for i{depth} in range({self._random.randint(1, 3)}):", *body],
            "while": [f"w{depth} = 2", f"while w{depth}:", f"    w{depth} -= 1", *body],
            "with": ["with contextlib.nullcontext():", *body],
            "try": ["try:", *body, "finally:", "    x += 1"],
        }[kind]

    def _legal(self, depth: int, loops: int) -> list[str]:
        choices = [
            ["x += 1"],
            ["if rank == 0:", "    x += 1"],
            ["if rank == 0:", "    x += 1", "else:", "    x += 2", "    x += 3"],
            ["for _ in range(rank + 1):", "    x += 1"],
            ["for _ in range(2):", "    if rank:", "        continue", "    x += 1"],
            ["n = 2 * rank", "while n:", "    n -= 1"],
            ["try:", "    x += 1 // rank", "except ZeroDivisionError:", "    x += 1"],
            ["with contextlib.suppress(ZeroDivisionError):", "    x += 1 // rank"],
            ["x += 1 if rank else 2"],
            ["x += sum(n for n in range(3) if n != rank)"],
            ["call('other')"],
            ["if rank == 0:", "    call('other')", "else:", "    call('other')"],
        ]
        if depth < 2:
            inner = _indented(self._block(depth + 2, loops + 1, holds=False))
            choices.append([f"for j{depth} in range(2):", *inner])
        return self._random.choice(choices)

    def _decision(self, loops: int) -> list[str]:
        it = ["call('it')"]
        choices = [
            ["if rank == 0:  # HERE", *_indented(it)],
            ["if rank == 1:  # HERE", "    x += 1", "else:", *_indented(it)],
            ["if x < 0:", "    pass", "elif rank == 0:  # HERE", *_indented(it)],
            ["if rank == 1:  # HERE", "    return x", *it],
            ["for _ in range(1 - rank):  # HERE", *_indented(it)],
            ["k = 1 - rank", "while k:  # HERE", "    k -= 1", *_indented(it)],
            ["rank == 0 and call('it')  # HERE"],
            ["x += call('it') if rank == 0 else 0  # HERE"],
            ["try:", "    1 // (1 - rank)  # HERE", *_indented(it), *CAUGHT],
            ["with contextlib.suppress(IndexError):", "    [1][rank]  # HERE", *_indented(it)],
        ]
        if loops:
            choices.append(["if rank == 1:  # HERE", "    continue", *it])
            choices.append(["if rank == 1:  # HERE", "    x += 1", "    break", "x += 1", *it])
        return self._random.choice(choices)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def load(source: str, folder: Path, seed: int) -> Program:
    """The program of a module with that text."""
    file = folder / f"random_program_{seed}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program: Program = module.program
    return program


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_other_line_is_named(seed: int, tmp_path: Path) -> None:
    """Whatever ranks do differently before and around it, the decision that matters is found."""
    source = Maker(seed).source()
    program = load(source, tmp_path, seed)
    found, goer, _ = part(program)
    assert found is not None, source
    assert _here(source) == line_of(found, goer)[1], source


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_rank_that_has_not_come_so_far_is_not_accused(seed: int, tmp_path: Path) -> None:
    """Where the other rank is held up on its way, the decision that matters is found or nothing."""
    source = Maker(seed).source()
    program = load(source, tmp_path, seed)
    for stop in range(4):
        found, goer, _ = part(program, stop=stop)
        if found is not None:
            assert _here(source) == line_of(found, goer)[1], (stop, source)


def _here(source: str) -> int:
    lines = source.splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith("# HERE"))
