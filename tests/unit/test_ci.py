"""What CI is told, as text: escapes, paths, and the line that is pointed at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.explain import Divergence, Explanation
from harness.plugin._ci import _markdown, _message, _property, guilty_place
from harness.record import Frame, Stack
from harness.report import Run
from harness.verdict import Finding, Side


def at(place: str) -> Stack:
    """A stack of one frame."""
    file, _, line = place.partition(":")
    return (Frame(file, int(line), "main"),)


WAITS = Side(0, "waiting", "barrier()", "", at("a.py:3"))
RETURNED = Side(1, "returned", guilty=True)
FOUND = Finding("missing_participant", "rank 1 never came", sides=(WAITS, RETURNED))


def test_commands_of_a_workflow_are_escaped() -> None:
    """As GitHub's own toolkit does it: the message, and more in the properties."""
    assert _message("100% of\r\na: b, c") == "100%25 of%0D%0Aa: b, c"
    assert _property("C:\\a,b%\n") == "C%3A\\a%2Cb%25%0A"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("all_reduce(SUM, float32[3]) of dp-cp [0, 1]",) * 2,
        ("a | b", "a &#124; b"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("two\nlines", "two lines"),
        ("__init__ and *args `x`", "&#95;_init_&#95; and &#42;args &#96;x&#96;"),
        ("test[a](b)", "test[a&#93;(b)"),
    ],
)
def test_nothing_in_a_cell_is_markdown(text: str, written: str) -> None:
    """A pipe would end the cell, a tag would be one; what means nothing stays to be read."""
    assert _markdown(text) == written


def test_the_line_to_look_at() -> None:
    """The first known of: where the ranks parted, a rank at fault, any rank."""
    assert guilty_place(replace(FOUND, sides=(RETURNED,)), None) == ("", 0)
    assert guilty_place(FOUND, None) == ("a.py", 3)
    guilty = replace(FOUND, sides=(WAITS, replace(RETURNED, stack=at("b.py:9"))))
    assert guilty_place(guilty, None) == ("b.py", 9)
    parted = Explanation(Divergence("loss.py", 38, "f", "if mask:", "if", ()))
    assert guilty_place(guilty, Run((guilty,), parted)) == ("loss.py", 38)
    assert guilty_place(guilty, Run((FOUND, guilty), parted)) == ("b.py", 9)
    assert guilty_place(guilty, Run((guilty,), Explanation(None, "gone"))) == ("b.py", 9)
