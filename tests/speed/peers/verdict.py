"""Faulty programs on our worlds: how long after the last act of a rank the verdict is there."""

from __future__ import annotations

import harness
from harness import _settings
from tests.speed import faults


def open_() -> None:
    """Functions travel by value; one verdict that nobody counts."""
    _settings.use(_settings.Settings(shipped=lambda: [faults], explain="never"))
    to_verdict("skip", 2)


def to_verdict(program: str, dp: int) -> float:
    """Seconds from the last thing any rank of world(dp, 2) did to the verdict."""
    function, kinds = faults.PROGRAMS[program]
    try:
        with harness.World(dp=dp, cp=2) as world:
            world.run(function)
    except harness.WorldError as error:
        kind = error.findings[0].kind
        if kind not in kinds:
            raise RuntimeError(f"{program}: {kind}: {error}") from error
        return error.seconds_to_verdict
    raise RuntimeError(f"{program}: nothing was found")
