"""A browser for the tests of pages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.pages import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    """A headless Chromium; without one the tests are skipped, unless it is required."""
    path = chromium.found()
    if path is None:
        reason = f"no Chromium found ({', '.join(chromium.NAMES)}; {chromium.VARIABLE} names one)"
        if chromium.VARIABLE in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    with chromium.Browser(path) as started:
        yield started
