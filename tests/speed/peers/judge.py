"""The judge alone: no ranks, no torch, records made for it."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from pathlib import Path

from harness.verdict import Judge
from tests.speed import _stream

CHUNK = 10_000


def judged(records: int) -> dict[str, float]:
    """Records for each second of CPU, asking for a fault after every four; what it keeps.

    There are ``records`` of them, or a few more, up to where a step ends. Making them is not
    timed. ``growth`` (MiB) and ``blocks`` (of Python's memory) are what this process has more
    after the last record than after the first tenth of them.
    """
    judge = Judge(_stream.SIZE)
    records += -records % _stream.PERIOD
    for record in _stream.beginning():
        judge.add(record)
    middle = _stream.middle()
    seconds, early = 0.0, (0.0, 0)
    for done in range(0, records, CHUNK):
        chunk = list(itertools.islice(middle, min(CHUNK, records - done)))
        started = time.process_time()
        for place, record in enumerate(chunk):
            judge.add(record)
            if place % _stream.SIZE == 3 and judge.fault():
                raise RuntimeError(f"a fault in a correct run: {judge.findings()}")
        seconds += time.process_time() - started
        del chunk, record
        if not early[1] and (done + CHUNK) * 10 >= records:
            early = _memory()
    late = _memory()
    for record in _stream.ending():
        judge.add(record)
    if judge.fault() or judge.findings():
        raise RuntimeError(f"a finding in a correct run: {judge.findings()}")
    return {
        "rate": records / seconds,
        "growth": late[0] - early[0],
        "blocks": late[1] - early[1],
    }


def _memory() -> tuple[float, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), sys.getallocatedblocks()
