"""The options: one table for the command line and the ini file, each checked with one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from harness._settings import DEFAULT_TIMEOUT, EXPLAIN


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r} is not a number of seconds above 0; give for example 30")
    return value


def _backend(text: str) -> str:
    if text != "gloo":
        raise ValueError(f"{text!r} is not supported; ranks run on CPUs, so it can only be gloo")
    return text


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**63:
        raise ValueError(f"{text!r} is not a whole number from 0; give for example 1234")
    return value


def _rank(text: str) -> int | None:
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a rank, a whole number from 0; give for example 1")
    return int(text)


def _modules(items: list[str]) -> tuple[str, ...]:
    names = tuple(part for item in items for part in item.replace(",", " ").split())
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{name!r} is not the name of a module; give for example numpy")
    return names


def _variables(items: list[str]) -> dict[str, str]:
    variables = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{item!r} is not NAME=VALUE; give for example MY_FLAG=1")
        variables[name.strip()] = value.strip()
    return variables


def _megatron(text: str) -> str:
    if text not in ("ranks", "everywhere"):
        raise ValueError(f'{text!r} is neither "ranks" nor "everywhere"')
    return text


def _scope(text: str) -> str:
    if text not in REUSE_SCOPES:
        raise ValueError(f"{text!r} is none of {', '.join(REUSE_SCOPES)}")
    return text


def _ranks(text: str) -> int:
    """The bound itself; ``auto`` is four ranks for each core, and eight at the least."""
    if text == "auto":
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        return max(8, 4 * cores)
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError(
            f'{text!r} is neither "auto" nor a number of ranks from 1; give for example 16'
        )
    return value


def _explain(text: str) -> str:
    if text not in EXPLAIN:
        raise ValueError(f"{text!r} is none of {', '.join(EXPLAIN)}")
    return text


REUSE_SCOPES = ("test", "class", "module", "session")


@dataclass(frozen=True)
class _Option:
    name: str
    read: Callable[[Any], Any]
    default: str | list[str]
    help: str
    metavar: str

    @property
    def is_list(self) -> bool:
        return isinstance(self.default, list)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


OPTIONS = (
    _Option(
        "world_timeout",
        _seconds,
        f"{DEFAULT_TIMEOUT:g}",
        "deadline of each World.run in seconds; kept below a pytest-timeout of the test",
        "SECONDS",
    ),
    _Option("world_backend", _backend, "gloo", "backend of the ranks' process groups", "NAME"),
    _Option(
        "world_preload",
        _modules,
        [],
        "modules to import once before ranks are forked; they must start no threads",
        "MODULE",
    ),
    _Option("world_env", _variables, [], "environment variables of the ranks", "NAME=VALUE"),
    _Option("world_seed", _whole, "0", "with the rank added, seeds random, numpy, torch", "N"),
    _Option(
        "world_stub_modules",
        _modules,
        [],
        "modules to provide in ranks as empty packages, for imports that tests do not exercise",
        "MODULE",
    ),
    _Option(
        "world_mpu",
        _megatron,
        "ranks",
        'where the stub of megatron.core.mpu is importable: in "ranks", or "everywhere" (in the '
        "pytest process too, for test modules that import it at their top)",
        "WHERE",
    ),
    _Option(
        "world_reuse",
        _scope,
        "test",
        "how long a world may stay up for tests that ask for the same one: test (each has its own), "
        "class, module or session; one that a test left something behind in is not used again",
        "SCOPE",
    ),
    _Option(
        "world_ranks",
        _ranks,
        "auto",
        "how many ranks all pytest-xdist workers together may have up (auto: four for each core, "
        "eight at the least); a world waits for its turn",
        "N",
    ),
    _Option(
        "world_explain",
        _explain,
        "auto",
        "whether a fault is looked at in a second run, with the code on its way traced, to name the "
        "line at which ranks took different ways: auto (if the first took less than 10 s), always "
        "(and with more time for it) or never",
        "WHEN",
    ),
    _Option(
        "world_pdb",
        _rank,
        "",
        "the rank that breakpoint() and an uncaught exception open a debugger on, in this terminal; "
        "the other ranks and the deadline wait",
        "RANK",
    ),
    _Option(
        "world_report",
        str,
        "",
        "folder for a page of each failing test that ran a world, with an index; and the same as "
        "JSON and as a trace",
        "DIR",
    ),
)


def add(parser: pytest.Parser) -> None:
    """Register every option, for the command line and the ini file."""
    group = parser.getgroup("collectives", "distributed worlds (pytest-collectives)")
    for option in OPTIONS:
        more = " (may be given several times)" if option.is_list else ""
        group.addoption(
            option.flag,
            dest=option.name,
            action="append" if option.is_list else "store",
            metavar=option.metavar,
            default=None,
            help=f"{option.help}{more}; ini: {option.name}",
        )
        kind: Literal["linelist", "string"] = "linelist" if option.is_list else "string"
        parser.addini(
            option.name,
            option.help,
            type=kind,
            default=option.default,
        )


def read(config: pytest.Config) -> dict[str, Any]:
    """The checked values; the command line wins over the ini file.

    Raises `pytest.UsageError` naming the option, what is wrong with it and the fix.
    """
    values = {}
    for option in OPTIONS:
        given = config.getoption(option.name)
        where = option.flag if given is not None else f"ini option {option.name}"
        try:
            values[option.name] = option.read(
                config.getini(option.name) if given is None else given
            )
        except ValueError as error:
            raise pytest.UsageError(f"{where}: {error}") from None
    return values


def header(config: pytest.Config) -> str | None:
    """What was changed from the defaults, for the head of the session."""
    changed = []
    for option in OPTIONS:
        value = config.getoption(option.name)
        value = config.getini(option.name) if value is None else value
        if value != option.default:
            changed.append(f"{option.name}={' '.join(value) if option.is_list else value}")
    return f"collectives: {', '.join(changed)}" if changed else None
