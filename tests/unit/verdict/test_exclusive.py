"""Lines of which only one runs in a pass, as the source tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.record import Frame
from harness.record._branches import branches
from harness.verdict._sites import exclusive

SOURCE = """\
def main(rank):
    if rank == 0:
        one()
        {leaves}
    two()
    three()
four()
"""


@pytest.mark.parametrize(
    ("leaves", "apart"),
    [("return", True), ("raise ValueError", True), ("pass", False), ("one()", False)],
)
def test_what_follows_an_if_that_leaves_is_its_other_arm(
    tmp_path: Path, leaves: str, apart: bool
) -> None:
    """An early return needs no ``else`` to exclude the rest of the block; what is around stays."""
    file = tmp_path / "main.py"
    file.write_text(SOURCE.format(leaves=leaves))

    def frame(line: int) -> Frame:
        return Frame(str(file), line, "main", branch=branches(str(file), line))

    assert exclusive(frame(3), frame(5)) is apart
    assert exclusive(frame(3), frame(6)) is apart
    assert not exclusive(frame(5), frame(6))
    assert not exclusive(frame(3), frame(7))
