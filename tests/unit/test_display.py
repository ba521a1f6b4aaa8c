"""Colours put on lines that pytest has made."""

from __future__ import annotations

import pytest

from harness import _settings
from harness._errors import WorldError
from harness.plugin._display import MARKUP, painted, shorten
from harness.report import Line
from harness.report._lines import line

from .verdict.test_reports import runs


def _markup(text: str, **how: bool) -> str:
    return f"<{text}>" if how else text


FOUND: list[Line] = [line(("verdict", "it broke")), (), line("  at ", ("place", "a.py:3"))]
RESET = "\x1b[0m"


def test_the_lines_of_a_report_are_painted() -> None:
    """Behind pytest's margin, the first behind the name of the exception; source lines are left."""
    shown = [">   run()", "E   harness.WorldError: it broke", "E   ", "E     at a.py:3", "E   note"]
    assert painted(shown, FOUND, _markup) == [
        ">   run()",
        f"E   harness.WorldError: {RESET}<it broke>",
        "E   ",
        f"E   {RESET}  at <a.py:3>",
        "E   note",
    ]


def test_lines_that_are_not_as_expected_stay() -> None:
    """Another pytest may write them in another way."""
    for shown in (
        [">   run()", "    no marker"],
        ["E   WorldError: it broke", "E   ", "E     at a.py:3"],
        [],
    ):
        assert painted(shown, FOUND, _markup) == shown
    part = ["E   harness.WorldError: it broke", "E   ", "E   other"]
    assert painted(part, FOUND, _markup)[2] == "E   other"


def test_quiet_leaves_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only as the report is made: a test that looks at the error has the whole text."""
    for detail, text in ((0, "it broke\nmore"), (1, "it broke\nmore"), (-1, "it broke")):
        monkeypatch.setattr(_settings, "current", _settings.Settings(detail=detail))
        error = WorldError("it broke\nmore")
        shorten(error)
        assert str(error) == text
    shorten(None)


def test_every_role_of_a_report_is_known() -> None:
    """A role is painted, or is source code, which stays plain."""
    from harness.report import lines

    roles = {role for run in runs().values() for parts in lines(run) for role, _ in parts}
    assert roles - {"", "source"} <= MARKUP.keys()
    assert {"verdict", "place", "guilty", "gap", "hint", "heading"} <= roles
