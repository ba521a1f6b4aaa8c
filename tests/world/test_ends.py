"""Nothing outlives a world, whatever becomes of pytest, of a rank, or of what a rank started."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from harness import World, WorldError, _settings
from harness.launch._forkserver import close_servers

WITHIN = 15.0


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _all_gone(pids: list[int]) -> bool:
    until = time.monotonic() + WITHIN
    while time.monotonic() < until:
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def _start_and_note(folder: str) -> Callable[[int], None]:
    """A rank's function that writes the pids of the rank and of what it started to a file."""

    def program(rank: int) -> None:
        child = subprocess.Popen(["sleep", "300"])
        away = subprocess.Popen(["sleep", "300"], start_new_session=True)
        forked = os.fork()
        if forked == 0:
            time.sleep(300)
            os._exit(0)
        pids = [os.getpid(), child.pid, away.pid, forked]
        part = Path(folder, f"part-{int(rank)}")
        part.write_text(" ".join(map(str, pids)))
        part.rename(Path(folder, f"pids-{int(rank)}"))

    return program


def _noted(folder: Path, ranks: int) -> list[int]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        files = sorted(folder.glob("pids-*"))
        if len(files) == ranks:
            return [int(p) for file in files for p in file.read_text().split()]
        time.sleep(0.02)
    pytest.fail(f"ranks did not start: {sorted(folder.iterdir())}")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR of this test's own, with a server of its own, so that leftovers can be seen."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    preload = ("colorsys",)  # another key, hence another server
    before = _settings.use(_settings.Settings(preload=preload))
    yield folder
    _settings.use(before)
    close_servers(of=preload)
    tempfile.tempdir = None


def test_a_closed_world_leaves_no_process_file_thread_or_descriptor(temporary: Path) -> None:
    """Ten worlds later all is as it was."""

    def program(rank: int) -> int:
        dist.all_reduce(torch.ones(1))
        return os.getpid()

    with World(dp=2) as world:
        world.run(program)
    before = len(os.listdir("/proc/self/fd"))
    pids = []
    for _ in range(10):
        with World(dp=2) as world:
            pids += world.run(program)
    assert _all_gone(pids)
    assert before == len(os.listdir("/proc/self/fd"))
    assert [] == [t.name for t in threading.enumerate() if t.name == "pytest-collectives"]
    if not torch.__version__.startswith("2.6."):  # which makes a folder that its process removes
        assert [] == list(temporary.iterdir())
    close_servers(of=_settings.current.preload)
    assert [] == list(temporary.iterdir())


def test_what_a_rank_started_ends_with_the_world(temporary: Path) -> None:
    """Child processes, those in sessions of their own, and forks."""
    with World(dp=2) as world:
        world.run(_start_and_note(str(temporary)))
    pids = _noted(temporary, 2)
    assert 8 == len(pids)
    assert _all_gone(pids)


def test_a_rank_with_non_daemon_threads_ends(temporary: Path) -> None:
    """A thread that a function left running does not keep its rank alive."""

    def program(rank: int) -> int:
        threading.Thread(target=time.sleep, args=(300,)).start()
        return os.getpid()

    started = time.monotonic()
    with World(dp=2) as world:
        pids = world.run(program)
    assert _all_gone(pids)
    assert time.monotonic() - started < WITHIN


def test_a_rank_that_ignores_sigterm_ends(temporary: Path) -> None:
    """SIGKILL is what ends a rank."""

    def program(rank: int) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return os.getpid()

    with World(dp=2) as world:
        pids = world.run(program)
    assert _all_gone(pids)


def test_a_stopped_rank_is_named_at_the_deadline_and_ends(temporary: Path) -> None:
    """SIGSTOP: a straggler that is said to be stopped, and no process left."""

    def program(rank: int, folder: str) -> None:
        Path(folder, f"pids-{int(rank)}").write_text(str(os.getpid()))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.barrier()

    with World(dp=2, timeout=3) as world, pytest.raises(WorldError) as caught:
        world.run(program, str(temporary))
    finding = caught.value.findings[0]
    assert ("straggler", (1,)) == (finding.kind, finding.ranks)
    assert "SIGSTOP" in caught.value.stacks[1]
    assert _all_gone(_noted(temporary, 2))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_rank_killed_by_a_signal_fails_the_run(number: signal.Signals) -> None:
    """Out of memory or a crash, on a rank that nobody waits for."""

    def program(rank: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), number)

    with World(dp=2) as world, pytest.raises(WorldError) as caught:
        world.run(program)
    finding = caught.value.findings[0]
    assert ("rank_died", (1,)) == (finding.kind, finding.ranks)
    assert number.name in str(caught.value).splitlines()[0]


def test_a_rank_that_dies_between_runs_is_told_at_the_end() -> None:
    """A thread that ends the process after the function returned is not overlooked."""

    def program(rank: int) -> None:
        if rank == 1:
            threading.Timer(0.1, os._exit, (3,)).start()

    world = World(dp=2)
    world.run(program)
    time.sleep(1.0)
    with pytest.raises(WorldError, match="rank 1 ended between runs with exit code 3"):
        world.close()


_TEST_FILE = """
import os, subprocess, time
from pathlib import Path
import torch, torch.distributed as dist

def program(rank, folder):
    away = subprocess.Popen(["sleep", "300"], start_new_session=True)
    part = Path(folder, f"part-{int(rank)}")
    part.write_text(f"{os.getpid()} {away.pid} {os.getppid()}")
    part.rename(Path(folder, f"pids-{int(rank)}"))
    if rank == 1:
        time.sleep(300)
    dist.barrier()

def test_it(world):
    world(dp=2).run(program, os.environ["NOTES"])
"""


@pytest.fixture
def a_session(
    tmp_path: Path,
) -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], Path, Path]]]:
    """Starts a pytest session whose world is in mid-run."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> tuple[subprocess.Popen[bytes], Path, Path]:
        (tmp_path / "test_it.py").write_text(_TEST_FILE)
        notes, temp = tmp_path / "notes", tmp_path / "temp"
        notes.mkdir()
        temp.mkdir()
        env = {**os.environ, "NOTES": str(notes), "TMPDIR": str(temp)}
        env.pop("PYTEST_ADDOPTS", None)
        # Where this session runs in the background of a shell, it and its children ignore Ctrl-C.
        heeds = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "import pytest; sys.exit(pytest.main())"
        )
        command = [sys.executable, "-c", heeds, "-p", "no:cacheprovider", *options, "test_it.py"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.append(process)
        return process, notes, temp

    yield start
    for process in started:
        process.kill()
        process.wait(WITHIN)


Session = Callable[..., tuple[subprocess.Popen[bytes], Path, Path]]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_rank_outlives_pytest(a_session: Session, number: signal.Signals) -> None:
    """SIGKILL, Ctrl-C and SIGTERM in mid-run: ranks, their children and the server end."""
    process, notes, temp = a_session()
    pids = _noted(notes, 2)
    assert all(_alive(pid) for pid in pids)
    process.send_signal(number)
    process.wait(WITHIN)
    assert _all_gone(pids)
    assert [] == [path.name for path in temp.glob("pytest-collectives-*")]


def test_no_rank_outlives_an_xdist_worker(a_session: Session) -> None:
    """The same for a session of two workers, ended by SIGKILL of the controller."""
    pytest.importorskip("xdist")
    process, notes, _ = a_session("-n", "2")
    pids = _noted(notes, 2)
    process.kill()
    process.wait(WITHIN)
    assert _all_gone(pids)


def test_a_world_ends_before_the_pytest_timeout(a_session: Session, tmp_path: Path) -> None:
    """With --timeout=20 the world's deadline comes first, and the report is the world's."""
    pytest.importorskip("pytest_timeout")
    (tmp_path / "test_it.py").write_text(_TEST_FILE)
    notes = tmp_path / "notes2"
    notes.mkdir()
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=20", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "NOTES": str(notes)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 1 == done.returncode
    assert "rank 1" in done.stdout
    assert "was cut to" in done.stdout
    assert "pytest-timeout of this test (20 s)" in done.stdout
    assert time.monotonic() - started < 40
    assert _all_gone(_noted(notes, 2))


def test_too_few_open_files_for_a_world_is_said_and_nothing_is_left() -> None:
    """Wherever in a start they run out: one error that says what to do, and the next world works."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for more in (0, 1, 4, 8, 9):
        if more % 2 == 0:
            close_servers()
        gc.collect()
        before = _descriptors()
        limit = free = 0
        while free < more or limit in before:
            free += limit not in before
            limit += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        try:
            with pytest.raises(RuntimeError, match=r"2 ranks needs about 12 open files.*ulimit -n"):
                World(2).start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(_descriptors() - before) <= 2  # the server's socket, and what it says
        with World(2) as world:
            assert world.run(int) == [0, 1]


def _descriptors() -> set[int]:
    return {
        int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")
    }
