"""From checks to pytest parameters. The only module of the suites that needs pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.suites._laws import Check, expected_reasons

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class NamedCheck:
    """One test to be: its id, the law behind it, and what to call."""

    id: str
    law: str
    check: Check


def parametrize_checks(
    checks: Sequence[NamedCheck],
    *,
    expected_failures: Mapping[str, str],
    suite: str,
    known_laws: Sequence[str],
) -> Callable[[F], F]:
    """Return a decorator that gives a test function one ``check`` argument for each check."""
    # pytest is imported only when a test module is being collected, and by then it is there.
    import pytest

    reasons = expected_reasons(
        [c.id for c in checks],
        {c.id: c.law for c in checks},
        expected_failures,
        suite,
        known_laws,
    )
    params = [
        pytest.param(
            c.check,
            id=c.id,
            # Only a broken law may be expected: an error in the suite itself must still show.
            marks=[pytest.mark.xfail(reason=reasons[c.id], strict=True, raises=AssertionError)]
            if c.id in reasons
            else [],
        )
        for c in checks
    ]
    return pytest.mark.parametrize("check", params)
