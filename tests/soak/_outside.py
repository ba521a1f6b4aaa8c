"""What is done to a world from outside of it: its ranks killed, its process short of descriptors."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator

from harness import World
from tests.soak._leaks import descriptors

WITHIN = 20.0


@contextlib.contextmanager
def killed(world: World, rank: int, delay: float) -> Iterator[None]:
    """Kill a rank of the started world from a thread, ``delay`` after its process is known.

    The rank waits for that at the end of its function, so its pid is its own until then.
    """
    supervisor = world._supervisor
    assert supervisor is not None
    done = threading.Event()

    def kill() -> None:
        until = time.monotonic() + WITHIN
        while not supervisor.pids:
            if done.wait(0.001) or time.monotonic() > until:
                return
        if not done.wait(delay):
            with contextlib.suppress(ProcessLookupError):
                os.kill(supervisor.pids[rank], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(WITHIN)


@contextlib.contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """This process may open ``free`` more files, not one more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_limit(free), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _limit(free: int) -> int:
    """The least limit below which ``free`` numbers are not in use."""
    used = descriptors(os.getpid())
    limit = 0
    while free or limit in used:
        free -= limit not in used
        limit += 1
    return limit
