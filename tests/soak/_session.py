"""One soak: a pytest session of its own with a temp directory of its own, and what is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak._leaks import marked
from tests.soak._watch import SAMPLES, WORLDS

ROOT = Path(__file__).parent.parent.parent
LOG, LEFT = "pytest.log", "left"
SECONDS_PER_WORLD = 5.0
SECONDS_MORE = 120.0
ENDS_WITHIN = 10.0
POLL = 1.0

_PYTEST = (
    "import sys; sys.path.append({root!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
)
"""The root at the end of the path: the installed package is the one that is put to the test."""

_OWN_DISKS = """
mount -t tmpfs -o size=8m,nr_inodes=600 soak "$TMPDIR" &&
mount -t tmpfs -o size=64m soak /dev/shm && mkdir "$TMPDIR/tmp" || exit 99
export TMPDIR="$TMPDIR/tmp"
"$@"
code=$?
ls -A "$TMPDIR" > "$0"
exit $code
"""
"""In a mount namespace of its own: the file systems end with the last process of the session."""


@dataclass
class Raw:
    """What a session left in its notes, and outside of them."""

    worlds: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    code: int = 0
    seconds: float = 0.0
    own_disk: bool = False
    processes: list[str] = field(default_factory=list)
    temp: list[str] = field(default_factory=list)
    log: str = ""
    folder: str = ""


def run(worlds: int, seed: int, *, keep: bool, progress: Callable[[int, int], None]) -> Raw:
    """Run the worlds in one pytest session; ``progress`` is told how many are done and wrong.

    With ``keep`` the folder with the notes and pytest's own output stays.
    """
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        raw = _run(worlds, seed, folder, progress)
        raw.folder = str(folder) if keep else ""
        return raw
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _run(worlds: int, seed: int, folder: Path, progress: Callable[[int, int], None]) -> Raw:
    temp, mark = folder / "tmp", f"soak-{uuid.uuid4().hex}"
    temp.mkdir()
    prefix = _with_own_disks(folder)
    own_temp = temp if prefix else temp / "tmp"
    own_temp.mkdir(exist_ok=True)
    started = time.monotonic()
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [*prefix, *_pytest_command(worlds, seed, folder, disk=bool(prefix))],
            cwd=ROOT,
            env=_environment(own_temp, mark),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            _wait(process, worlds, folder / WORLDS, progress)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(ENDS_WITHIN)
    seconds = time.monotonic() - started
    left = (folder / LEFT).read_text().split() if prefix else os.listdir(own_temp)
    return Raw(
        worlds=_lines(folder / WORLDS),
        samples=_lines(folder / SAMPLES),
        code=process.returncode,
        seconds=seconds,
        own_disk=bool(prefix),
        processes=_left_running(mark),
        temp=sorted(left),
        log=(folder / LOG).read_text("utf-8", "replace")[-4000:],
    )


def _pytest_command(worlds: int, seed: int, folder: Path, *, disk: bool) -> list[str]:
    options = [
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "tests.soak._plugin",
    ]
    numbers = [f"--soak-worlds={worlds}", f"--soak-seed={seed}", f"--soak-notes={folder}"]
    file = str(Path(__file__).with_name("worlds.py"))
    code = _PYTEST.format(root=str(ROOT))
    more = ["--soak-disk"] if disk else []
    return [sys.executable, "-P", "-c", code, *options, *numbers, *more, file]


def _environment(temp: Path, mark: str) -> dict[str, str]:
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return {**env, "TMPDIR": str(temp), "SOAK_SESSION": mark}


def _with_own_disks(folder: Path) -> list[str]:
    """A command before the command, for small file systems of its own; empty if it may not be."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    prefix = [unshare, *user, "--mount", "--propagation", "private", "sh", "-c", _OWN_DISKS]
    prefix.append(str(folder / LEFT))
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        env = {**os.environ, "TMPDIR": str(folder / "tmp")}
        done = subprocess.run([*prefix, "true"], env=env, capture_output=True, timeout=10)
        if done.returncode == 0:
            return prefix
    return []


def _wait(
    process: subprocess.Popen[bytes], worlds: int, notes: Path, progress: Callable[[int, int], None]
) -> None:
    until = time.monotonic() + SECONDS_MORE + SECONDS_PER_WORLD * worlds
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
        told = _lines(notes)
        progress(len(told), sum(bool(each["wrong"]) for each in told))


def _left_running(mark: str) -> list[str]:
    """Processes of the session that are there a moment after its end."""
    until = time.monotonic() + 2.0
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1]]
