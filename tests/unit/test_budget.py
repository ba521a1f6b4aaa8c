"""The bound on ranks over several processes: never more, first come first served, no deadlock."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness._budget import Budget, BudgetFile

# Takes ranks and says so; takes more at each line of its input, and holds all until that ends.
HOLDER = """
import sys
from harness._budget import Budget
file, ranks, *wanted = sys.argv[1:]
budget = Budget(file, int(ranks))
leases = []
for each in wanted:
    leases.append(budget.acquire(int(each)))
    print("has", each, flush=True)
    sys.stdin.readline()
"""

WORKER = """
import os, random, sys, time
from harness._budget import Budget
file, ranks, log, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
draw = random.Random(seed)
budget = Budget(file, ranks)
out = os.open(log, os.O_WRONLY | os.O_APPEND)
for _ in range(12):
    wanted = draw.randint(1, ranks)
    lease = budget.acquire(wanted)
    os.write(out, b"+%d\\n" % wanted)
    time.sleep(draw.random() * 0.004)
    os.write(out, b"-%d\\n" % wanted)
    lease.release()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def file() -> Iterator[str]:
    """The file of a budget."""
    made = BudgetFile()
    yield made.name
    made.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def _has(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _drawn(file: str, numbers: int) -> None:
    """Wait until so many numbers have been drawn: then that many have come."""
    until = time.monotonic() + 20
    with open(file, "rb") as stream:
        while time.monotonic() < until:
            stream.seek(0)
            data = stream.read(8)
            if len(data) == 8 and struct.unpack("<Q", data)[0] >= numbers:
                return
            time.sleep(0.01)
    pytest.fail(f"{numbers} processes have not come")


def test_there_are_never_more_ranks_than_the_budget_and_all_get_theirs(
    file: str, start: Start, tmp_path: Path
) -> None:
    """Five processes that take and give back at random sizes."""
    log = tmp_path / "log"
    log.touch()
    workers = [start(WORKER, file, 6, log, seed) for seed in range(5)]
    for worker in workers:
        assert worker.wait(60) == 0
    up = most = 0
    changes = [int(line) for line in log.read_text().split()]
    for change in changes:
        up += change
        most = max(most, up)
    assert (len(changes), up) == (2 * 5 * 12, 0)
    assert 1 < most <= 6


def test_first_come_first_served_and_the_large_are_not_starved(file: str, start: Start) -> None:
    """Behind a world that needs all ranks, a small one waits though there would be room for it."""
    first = start(HOLDER, file, 4, 3)
    assert _has(first) == "has 3"
    large = start(HOLDER, file, 4, 4)
    _drawn(file, 2)
    small = start(HOLDER, file, 4, 1)
    _drawn(file, 3)
    time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)  # whose ranks the system gives back

    assert _has(large) == "has 4"
    small.kill()
    assert _has(small) == ""  # it had waited to its end


def test_who_waits_and_is_killed_holds_up_nobody(file: str, start: Start) -> None:
    """The number that a killed process drew is void."""
    budget = Budget(file, 4)
    lease = budget.acquire(4)
    waiting = start(HOLDER, file, 4, 4)
    _drawn(file, 2)
    next_one = start(HOLDER, file, 4, 2)
    _drawn(file, 3)
    os.kill(waiting.pid, signal.SIGKILL)
    lease.release()
    assert _has(next_one) == "has 2"
    budget.close()


def test_two_tests_with_several_worlds_each_do_not_wait_for_one_another(
    file: str, start: Start
) -> None:
    """Each holds half of the budget and wants as much again."""
    both = [start(HOLDER, file, 8, 4, 4) for _ in range(2)]
    for _ in range(2):
        assert [_has(each) for each in both] == ["has 4"] * 2
        for each in both:
            assert each.stdin is not None
            each.stdin.write("more\n")
            each.stdin.flush()


def test_a_world_larger_than_the_budget_has_the_machine_for_itself(file: str, start: Start) -> None:
    """It waits until no other is up, and none starts beside it."""
    budget = Budget(file, 4)
    lease = budget.acquire(64)
    other = start(HOLDER, file, 4, 1)
    _drawn(file, 2)
    time.sleep(0.1)
    lease.release()
    assert _has(other) == "has 1"
    assert len(budget.acquire(64, patience=0.05)._taken) == 3  # for now that one is up
    budget.close()


def test_a_file_that_is_another_is_refused(start: Start) -> None:
    """A worker on another machine may find a file of that name there: it is not written to."""
    other = os.memfd_create("other")
    with pytest.raises(FileNotFoundError):
        Budget(f"/proc/{os.getpid()}/fd/{other}", 4)
    with pytest.raises(FileNotFoundError):
        Budget(f"/proc/{os.getpid()}/fd/9999", 4)
    assert os.fstat(other).st_size == 0
    os.close(other)


def test_patience_ends(file: str, start: Start) -> None:
    """A test that has to be done by a time goes ahead with what there is."""
    holder = start(HOLDER, file, 2, 2)
    assert _has(holder) == "has 2"
    budget = Budget(file, 2)
    before = time.monotonic()
    lease = budget.acquire(2, patience=0.2)
    assert time.monotonic() - before >= 0.2
    lease.release()
    lease.release()
    budget.close()
