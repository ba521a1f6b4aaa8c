"""Values that user code had checked."""

from __future__ import annotations

from harness.record import GroupMade
from harness.verdict import Finding

from .program import (
    Program,
    Step,
    ar,
    expect,
    judged,
    later,
    only,
    program,
    records,
    same,
    unchanged,
    verdict,
)

GRID = {"dp": [(0, 2), (1, 3)]}


def on_grid(run: Program) -> list[Finding]:
    """The verdict where the layout's groups are known."""
    made = [
        GroupMade(ranks[0], f"layout-{name}-{n}", ranks, name)
        for name, groups in GRID.items()
        for n, ranks in enumerate(groups)
    ]
    return judged([*made, *records(run)], run.world_size)


def checks(*values: str) -> list[Step]:
    """One check after another of one name."""
    return [same("w", value, "t.py:5") for value in values]


def test_a_value_that_is_not_what_it_has_to_be() -> None:
    """G01: told once for all ranks that have it wrong."""
    wrong, right = expect("loss", "t.py:5", "3.0 where 1.5 is expected"), expect("loss", "t.py:5")
    found = only(program([wrong], [right], [wrong]))
    assert (found.kind, found.ranks) == ("value_mismatch", (0, 2))
    assert found.sites == {0: "t.py:5", 2: "t.py:5"}
    assert "3.0 where 1.5 is expected" in found.summary
    assert verdict(program([right], [right])) == []


def test_a_value_that_is_not_the_same_everywhere() -> None:
    """G05: the minority is at fault; where there is none, all are."""
    (found,) = on_grid(program(checks("a"), checks("x"), checks("b"), checks("x")))
    assert (found.kind, found.detail, found.ranks) == ("value_mismatch", "same", (0, 2))
    assert str(found.group) == "dp [0, 2]"
    assert "a on rank 0, b on rank 2" in found.summary
    assert on_grid(program(checks("a"), checks("x"), checks("a"), checks("x"))) == []


def test_checks_pair_by_their_count() -> None:
    """The second check of a name is compared with the second."""
    (found,) = on_grid(program(checks("a", "b"), [], checks("a", "c"), []))
    assert "(check 2)" in found.summary


def test_a_majority_is_right() -> None:
    """Over the whole world one rank of four is at fault."""
    steps = [[same("w", value, "t.py:5", "world")] for value in "aaba"]
    assert only(program(*steps)).ranks == (2,)


def test_a_rank_that_checks_less_often() -> None:
    """What was compared may not be what was meant: a warning."""
    (found,) = on_grid(program(checks("a", "b"), [], checks("a"), []))
    assert (found.kind, found.level, found.ranks) == ("value_mismatch", "warning", (2,))


def test_a_value_that_was_written_to() -> None:
    """R22."""
    wrong = unchanged("kl", "t.py:5", "[0.1, 0.2] has become [0.05, 3.1]")
    found = only(program([wrong], [wrong]))
    assert (found.kind, found.ranks) == ("mutated_value", (0, 1))
    assert '"kl"' in found.summary
    assert verdict(program([unchanged("kl", "t.py:5")], [unchanged("kl", "t.py:5")])) == []


def test_a_wrong_value_follows_from_what_went_wrong_before() -> None:
    """The work that nobody waited for is the cause; the value is told with it."""
    steps = [later(ar("t.py:3"), "w"), expect("loss", "t.py:5", "1.0 where 3.0 is expected")]
    found = only(program(steps, steps))
    assert found.kind == "work_not_waited"
    assert any("wrong value" in line for line in found.secondary)
