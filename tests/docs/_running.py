"""Runs the examples of a page in a folder of its own."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.docs import _examples
from tests.docs._examples import Block, Command

SECONDS = 60
_NOT_FOR_EXAMPLES = (
    "PYTEST_",
    "COV_",
    "CI",
    "GITHUB_",
    "GITLAB_",
    "BUILD_NUMBER",
    "TOX_",
    "FORCE_COLOR",
)


@dataclass
class Result:
    """What came of one command of a page."""

    block: Block
    command: Command
    code: int
    real: list[str]
    output: str

    @property
    def wrong(self) -> str:
        """What does not fit the page; empty where all does."""
        asked = int(self.block.told.get("exit", "0"))
        if self.code != asked:
            return (
                f"line {self.block.line}: $ {self.command.command}: exit code {self.code}, not "
                f"{asked}:\n{self.output}"
            )
        if self.command.shown is None or _examples.fits(self.command.shown, self.real):
            return ""
        shown, real = "\n".join(self.command.shown), "\n".join(self.real)
        return f"line {self.block.line}: $ {self.command.command}\n--- shown:\n{shown}\n--- printed:\n{real}"


def run(page: Path, folder: Path) -> Iterator[Result]:
    """Go through a page as a reader does: write its files, run its commands."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(_examples.blocks(page.read_text()))
    if not any(block.title == "pyproject.toml" for block in found):
        (folder / "pytest.ini").touch()  # a configuration further up is not the reader's
    tools = _tools(folder.parent / f"{folder.name}.bin")
    for block in found:
        if "not run" in block.told:
            continue
        if block.title:
            _write(folder / block.title, block)
        elif block.language == "console":
            for command in _examples.commands(block):
                code, output = _run(command.command, folder, tools)
                real = _examples.printed(output, folder, block.told.get("show", ""))
                yield Result(block, command, code, real, output)


def _write(file: Path, block: Block) -> None:
    text = block.text
    if file.suffix in (".yml", ".yaml"):
        assert isinstance(yaml.safe_load(text), dict), f"line {block.line}: no YAML mapping"
    elif file.suffix == ".toml":
        tomllib.loads(text)
    elif file.suffix == ".json":
        json.loads(text)
    elif file.suffix == ".py":
        compile(text, str(file), "exec")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _tools(folder: Path) -> Path:
    """``python`` and ``pytest`` of this environment, as an installation puts them there."""
    folder.mkdir(exist_ok=True)
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="pytest")
    scripts = {
        "python": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        "pytest": f"#!{sys.executable}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n",
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _run(command: str, folder: Path, tools: Path) -> tuple[int, str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_EXAMPLES)
    }
    environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"
    environment["COLUMNS"] = "80"
    environment["NO_COLOR"] = "1"
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children too
            output, _ = process.communicate(timeout=SECONDS)
            output += f"\nthe command was still running after {SECONDS} seconds\n"
    return process.returncode, output


def rewritten(page: Path, results: list[Result]) -> str:
    """The page with what its commands print now, where it shows something else."""
    lines = page.read_text().splitlines()
    by_block: dict[int, list[Result]] = {}
    for result in results:
        by_block.setdefault(result.block.first, []).append(result)
    for of_block in sorted(by_block.values(), key=lambda found: -found[0].block.first):
        block = of_block[0].block
        if not any(result.wrong for result in of_block):
            continue
        new: list[str] = []
        for result in of_block:
            shown = result.command.shown
            new.append(f"$ {result.command.command}")
            if shown is not None:
                new += (result.real or ["?"]) if result.wrong else shown
        lines[block.first : block.last] = [f"{block.indent}{line}".rstrip() for line in new]
    return "\n".join(lines) + "\n"
