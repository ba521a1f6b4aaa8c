"""A short soak in every run of the suite: each kind of fault at least once, and nothing left."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).parent.parent.parent)
if ROOT not in sys.path:
    # The plan goes to the ranks by name; at the end of the path, so that the installed package wins.
    sys.path.append(ROOT)

from tests.soak.__main__ import soak  # noqa: E402
from tests.soak._leaks import Sample  # noqa: E402
from tests.soak._plan import HOW, KINDS, plan  # noqa: E402
from tests.soak._report import Report, table  # noqa: E402
from tests.soak._session import Raw  # noqa: E402

WORLDS = 40
SEED = 7


@pytest.mark.skipif(sys.platform != "linux", reason="leaks are counted in /proc")
def test_forty_worlds_are_judged_right_and_leave_nothing() -> None:
    """Faults at random in one session: every verdict is right, and nothing is left behind."""
    report = soak(WORLDS, SEED, quiet=True)
    assert report.good, "\n".join([table(report), *report.wrong])
    assert set(KINDS) == set(report.kinds)


def test_a_seed_makes_the_same_worlds() -> None:
    """So that a world that was judged wrong can be run again."""
    assert plan(200, 3, disk=True) == plan(200, 3, disk=True)
    assert plan(200, 3, disk=True) != plan(200, 4, disk=True)


def test_two_thousand_worlds_meet_every_fault_in_every_way() -> None:
    """The shares of the kinds leave none out."""
    met = {(case.kind, case.how) for case in plan(2000, 0, disk=True)}
    assert {(kind, how) for kind, ways in HOW.items() for how in ways} <= met
    assert set(KINDS) == {kind for kind, _ in met}


def _sample(worlds: int, **changed: Any) -> dict[str, Any]:
    sample = Sample(worlds, 0.0, (), 1, 1, ("pipe",), ("pipe",), (), (), 40_000, 300_000)
    return {**asdict(sample), **changed}


def test_what_a_session_keeps_is_named() -> None:
    """One pipe more than at the beginning, and a process that runs on, are leaks."""
    last = _sample(100, descriptors=("pipe", "pipe"), processes=("sleep 300",))
    report = Report(0, 0, Raw(samples=[_sample(0), last], own_disk=True))
    assert {"descriptors": ["pipe"], "processes": ["sleep 300"]} == report.leaks
    assert not report.good


@pytest.mark.parametrize(("kib", "grown"), [(0, []), (1, []), (5, ["pytest"])])
def test_a_process_that_grows_with_each_world_is_named(kib: int, grown: list[str]) -> None:
    """Five KiB a world are a leak; one is what pytest keeps of each test."""
    samples = [_sample(n, memory=40_000 + kib * n) for n in range(0, 2001, 50)]
    assert grown == Report(0, 0, Raw(samples=samples)).grown
