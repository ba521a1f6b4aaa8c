"""Which arms of which ifs a line stands in."""

from __future__ import annotations

from pathlib import Path

from harness.record._branches import branches

SOURCE = """\
def f(a):
    if a:
        one()
    elif b:
        two()
    else:
        three(
            4)
    if c:
        def g():
            inner()
            if d: deep()
        after()
    done()
"""


def test_each_line_knows_the_arms_around_it_in_its_own_function(tmp_path: Path) -> None:
    """An elif is an if in the else before it; a nested function begins afresh."""
    file = tmp_path / "source.py"
    file.write_text(SOURCE)
    expected = {
        3: ((2, 0),),
        5: ((2, 1), (4, 0)),
        7: ((2, 1), (4, 1)),
        8: ((2, 1), (4, 1)),
        11: (),
        12: ((12, 0),),
        13: ((9, 0),),
        14: (),
    }
    assert expected == {line: branches(str(file), line) for line in expected}


def test_a_file_without_source_is_not_known() -> None:
    """Code that was made from a string has no branches to tell."""
    assert branches("<string>", 1) is None
