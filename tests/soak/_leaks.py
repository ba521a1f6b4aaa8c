"""What a session holds at a moment: processes, threads, descriptors, files and memory (Linux)."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.launch._processes import descendants

SETTLES_WITHIN = 1.0
LONGEST = 80
COUNTED = ("threads", "server_threads")
LISTED = ("processes", "descriptors", "server_descriptors", "temp", "shared")
SHARED_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Sample:
    """One look at the pytest process and its server, between two worlds."""

    worlds: int
    seconds: float
    processes: tuple[str, ...]
    """Descendants of the session, other than the server, that still run."""
    threads: int
    server_threads: int
    descriptors: tuple[str, ...]
    server_descriptors: tuple[str, ...]
    temp: tuple[str, ...]
    shared: tuple[str, ...]
    memory: int
    """Resident memory in KiB."""
    server_memory: int


def look(worlds: int, seconds: float) -> Sample:
    """Take a sample of this process and its server."""
    me = os.getpid()
    server = server_of(me)
    return Sample(
        worlds=worlds,
        seconds=round(seconds, 1),
        processes=tuple(_strangers(me)),
        threads=threading.active_count(),
        server_threads=len(_names(f"/proc/{server}/task")),
        descriptors=_kinds(me),
        server_descriptors=_kinds(server),
        temp=tuple(sorted(os.listdir(tempfile.gettempdir()))),
        shared=tuple(sorted(os.listdir(SHARED_MEMORY))),
        memory=resident(me),
        server_memory=resident(server),
    )


def settled(worlds: int, seconds: float, first: Sample) -> Sample:
    """Take a sample; what is there beyond the first one has a moment to end."""
    until = time.monotonic() + SETTLES_WITHIN
    while more(asdict(first), asdict(sample := look(worlds, seconds))):
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return sample


def more(first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, list[str]]:
    """What one sample holds that an earlier one did not, by field; memory is not looked at."""
    found = {}
    for name in COUNTED:
        if last[name] > first[name]:
            found[name] = [f"{first[name]} → {last[name]}"]
    for name in LISTED:
        left = Counter(last[name]) - Counter(first[name])
        if left:
            found[name] = sorted(left.elements())
    return found


def server_of(pid: int) -> int:
    """The process that starts the ranks of ``pid``; 0 where there is none."""
    for each in descendants(pid):
        if "harness.launch._server" in _command(each) and _parent(each) == pid:
            return each
    return 0


def descriptors(pid: int) -> dict[int, str]:
    """The open files of a process, by number."""
    found = {}
    for name in _names(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue  # the listing's own
    return found


def resident(pid: int) -> int:
    """The resident memory of a process in KiB."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def marked(mark: str) -> list[str]:
    """The commands of all processes that have ``mark`` in the environment they started with."""
    pids = [int(name) for name in _names("/proc") if name.isdigit()]
    return [
        _command(pid)[:LONGEST]
        for pid in pids
        if pid != os.getpid() and mark in _read(f"/proc/{pid}/environ")
    ]


def _strangers(pid: int) -> list[str]:
    server = server_of(pid)
    return [_command(each)[:LONGEST] for each in descendants(pid) if each != server]


def _kinds(pid: int) -> tuple[str, ...]:
    """The open files of a process, sockets, pipes and unnamed files alike."""
    targets = descriptors(pid).values()
    return tuple(
        sorted(
            "unnamed file" if target.endswith("(deleted)") else target.partition(":[")[0]
            for target in targets
        )
    )


def _parent(pid: int) -> int:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _command(pid: int) -> str:
    """The command line, or the short name of a process that has none any more."""
    line = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return line or f"[{_read(f'/proc/{pid}/comm').strip()}]"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
