"""Shared by all tests: after each one, nothing that it started may be left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No thread of a world and no file of one outlives its test."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + 5
    while time.monotonic() < until:
        new = [t for t in threading.enumerate() if t not in before]
        left = [t.name for t in new if t.name == "pytest-collectives"]
        if not left or _has_shared_world(request):
            return
        time.sleep(0.01)
    pytest.fail(f"threads of worlds outlived the test: {left}")


def _has_shared_world(request: pytest.FixtureRequest) -> bool:
    shared = {"class_world", "module_world", "package_world", "session_world"}
    return not shared.isdisjoint(request.fixturenames)


@pytest.fixture
def tests_root() -> Path:
    """The folder of this file."""
    return Path(__file__).parent
