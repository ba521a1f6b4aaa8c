"""The worlds of a soak, one test each. ``python -m tests.soak`` runs them with its plugin."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from harness import Rank, World, WorldError
from harness._worlds import WorldFactory
from harness.launch._forkserver import close_servers
from tests.soak._calls import expected
from tests.soak._disk import make_room, without_room
from tests.soak._judging import complaint
from tests.soak._leaks import descriptors, server_of
from tests.soak._outside import few_descriptors, killed
from tests.soak._plan import Case
from tests.soak._ranks import program

LONGEST_DELAY = 0.25


def test_world(case: Case, world: WorldFactory) -> None:
    """The world ends as it has to, whatever was done to it."""
    told = _run(case, world)
    if told:
        pytest.fail(told, pytrace=False)


def _run(case: Case, make: WorldFactory) -> str:
    if case.kind in ("disk_full", "nofile"):
        return _without_a_start(case)
    try:
        return complaint(case, _ended(case, make))
    finally:
        make_room(tempfile.gettempdir())


def _ended(case: Case, make: Callable[..., World]) -> list[Any] | Exception:
    """The results of the world, or the error that it ended with."""

    def on_rank(rank: Rank) -> list[list[float]]:
        return program(rank, case)

    try:
        # A second run for every fourth fault, to see that it leaves nothing behind either.
        explain = "always" if case.seed % 4 == 0 else "never"
        world = make(case.dp, case.cp, timeout=case.timeout, seed=case.seed % 1000, explain=explain)
        with contextlib.ExitStack() as stack:
            if case.kind == "kill_outside":
                delay = case.rng(-1).uniform(0.0, LONGEST_DELAY)
                stack.enter_context(killed(world, case.rank, delay))
            return world.run(on_rank)
    except (WorldError, RuntimeError) as error:
        return error


def _closed_soon(case: Case) -> list[Any] | Exception:
    """The same without the fixture: the world is closed when this returns."""
    with contextlib.ExitStack() as stack:
        return _ended(case, lambda *given, **more: stack.enter_context(World(*given, **more)))


def _without_a_start(case: Case) -> str:
    """A world that cannot start says so; nothing is left of it, and the next one is well."""
    if case.how == "server":
        close_servers()
    before, server = descriptors(os.getpid()), server_of(os.getpid())
    with _lack(case):
        ended = _closed_soon(case)
    told = complaint(case, ended)
    del ended
    after = descriptors(os.getpid())
    # A server that was started for it stays, with its socket and what it says.
    if len(after) > len(before) + (2 if case.how == "server" else 0):
        told += f"; descriptors left: {sorted(set(after.items()) - set(before.items()))}"
    if server and server_of(os.getpid()) != server:
        told += "; the server that starts ranks did not survive"
    results = _closed_soon(case)
    if results != [expected(case, rank) for rank in range(case.world_size)]:
        told += f"; the next world: {results}"
    return told


def _lack(case: Case) -> contextlib.AbstractContextManager[None]:
    if case.kind == "disk_full":
        return without_room(case.how, tempfile.gettempdir())
    return few_descriptors(case.rng(-1).randint(0, 6) if case.how == "server" else int(case.how))
