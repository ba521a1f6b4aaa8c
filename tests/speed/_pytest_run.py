"""Runs of pytest in processes of their own, timed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.speed._bench import ROOT, BenchError

# hypothesis, which only this project's own tests need, takes a second at the end of each session.
QUIETLY = ("-p", "no:hypothesispytest", "-q")


def timed(
    arguments: list[str], cwd: Path, within: float, env: Mapping[str, str] | None = None
) -> tuple[float, float, str]:
    """Seconds by the clock, CPU seconds of it and all that it waited for, and its output.

    Without pytest's cache, unless the arguments say where it is to be.

    Raises `BenchError` if a test fails or the time is over; then the session is killed.
    """
    with tempfile.TemporaryDirectory(prefix="tests-speed-", ignore_cleanup_errors=True) as folder:
        return _timed(arguments, cwd, within, {"TMPDIR": folder, **(env or {})})


def _timed(
    arguments: list[str], cwd: Path, within: float, env: Mapping[str, str]
) -> tuple[float, float, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        **env,
    }
    if not any(argument.startswith("cache_dir=") for argument in arguments):
        arguments = ["-p", "no:cacheprovider", *arguments]
    before, started = _cpu_of_children(), time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *QUIETLY, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=within)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(15)
            if isinstance(error, subprocess.TimeoutExpired):
                raise BenchError(f"pytest {arguments} did not end within {within:g} s") from None
            raise
    seconds, cpu = time.perf_counter() - started, _cpu_of_children() - before
    if process.returncode:
        raise BenchError(f"pytest {arguments} ended with {process.returncode}:\n{said[-3000:]}")
    return seconds, cpu, said


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
