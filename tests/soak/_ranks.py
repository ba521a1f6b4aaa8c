"""What runs on a rank of the soak: the calls of the case, and what is done before one of them."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NoReturn

from harness.layout import Rank
from tests.soak._calls import perform
from tests.soak._disk import fill
from tests.soak._plan import Case

JITTER = 0.01
SLOWEST = 0.5
FEW_FILES = 128
PRINTED = (1, 4)
"""Megabytes that a flood prints."""


def program(rank: Rank, case: Case) -> list[list[float]]:
    """The function of every rank: its results, one list a call."""
    rng = case.rng(int(rank))
    _leave_behind(case.leaves)
    results: list[list[float]] = []
    held: list[int] = []
    for step, op in enumerate(case.ops):
        time.sleep(rng.uniform(0.0, JITTER))
        if step == case.step and rank == case.rank:
            what = _inject(case, held)
            if what == "one":
                continue
            if what == "rest":
                return results
        results.append(perform(rank, op, step))
    if case.kind == "kill_outside" and rank == case.rank:
        time.sleep(2 * case.timeout)
    return results


def _inject(case: Case, held: list[int]) -> str:
    """Do to this rank what the case says; a skip says how much is left out."""
    rng = case.rng(-1)
    kind, how = case.kind, case.how
    if kind.startswith("flood"):
        _flood(how if kind == "flood" else "stdout", rng.randint(*PRINTED))
        kind, how = (
            (how, "one" if how == "skip" else "value") if kind == "flood_fault" else ("", "")
        )
    if kind == "skip":
        return how
    if kind == "raise":
        _raise(how)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "slow":
        time.sleep(rng.uniform(0.05, SLOWEST))
    if kind == "disk_full_rank":
        _fill_the_disk(how)
    if kind == "nofile_rank":
        _open_all(how, held, rng.randint(0, 6))
    return ""


def _leave_behind(what: str) -> None:
    """A daemon thread and a child process in a session of its own, both running on."""
    if what in ("thread", "both"):
        threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
    if what in ("child", "both"):
        subprocess.Popen(["sleep", "300"], start_new_session=True)


class Own(Exception):
    """An exception class of the code under test."""

    def __init__(self, first: int, second: str) -> None:
        super().__init__(f"{second} {first}")
        self.first, self.second = first, second


class NoText(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raise(how: str) -> NoReturn:
    """Raise an exception of one of many kinds."""
    if how == "own":
        raise Own(3, "own")
    if how == "group":
        raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "memory":
        raise MemoryError("cannot allocate")
    if how == "assertion":
        assert [1, 2, 3] == [1, 2, 4]
    if how == "unpicklable":
        raise ValueError("holds a lock", threading.Lock())
    if how == "no_text":
        raise NoText
    if how == "long":
        raise RuntimeError("long " * 20_000 + "\udcff\x00")
    raise ValueError("raised by the soak")


def _flood(how: str, megabytes: int) -> None:
    """Print lines of many lengths, by Python, by the descriptor or by a child process."""
    line = "x" * 200 + "\n"
    count = megabytes * (1 << 20) // len(line)
    if how == "child":
        code = f"import sys\nfor _ in range({count}): sys.stdout.write({line!r})"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
    elif how == "descriptor":
        data = memoryview((line * count).encode())
        while data:
            data = data[os.write(2, data) :]
    else:
        stream = sys.stderr if how == "stderr" else sys.stdout
        for _ in range(count):
            stream.write(line)


def _fill_the_disk(how: str) -> None:
    """Write where there is no room; ``midway`` fills the temp directory and goes on."""
    if how == "midway":
        fill("blocks", tempfile.gettempdir())
        return
    target = os.open("/dev/full", os.O_WRONLY)
    os.write(target, b"x" * 4096)


def _open_all(how: str, held: list[int], left: int) -> None:
    """Open files until there may be no more; then raise, give back all, or go on with few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, hard))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        if how == "raise":
            raise
    for descriptor in held if how == "release" else held[:left]:
        os.close(descriptor)
