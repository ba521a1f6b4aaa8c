"""The bench of speed itself: turns, targets, reports and its command line. Nothing is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import __main__ as bench
from ._measure import Measured, Sample, Target, in_turns, percentile, ratio
from ._report import BEGIN, END, as_json, write_markdown

CASE = Measured(
    {"ours": Sample.of([0.001, 0.002, 0.003]), "other": Sample.of([0.004])},
    [Target("fast", 2.0, 3.0, "ms"), Target("faster than", 2.0, 3.0, "×", "higher")],
    ("a note",),
)


def test_percentiles_lie_between_neighbours() -> None:
    """A percentile between two values is their linear mixture."""
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([1.0, 2.0], 25) == 1.25


def test_samples_are_in_their_unit() -> None:
    """Seconds become milliseconds; what is no time stays as it is."""
    assert Sample.of([0.5]).median == 500.0
    assert Sample.of([0.5], "MiB").median == 0.5
    assert ratio(CASE.figures, "other", "ours") == 2.0


def test_a_target_is_met_from_its_own_side() -> None:
    """At most 3 is met by 2; at least 3 is not."""
    assert [target.met for target in CASE.targets] == [True, False]


def test_turns_go_round_and_the_few_are_spread() -> None:
    """Each round begins with another peer; one with fewer turns has them far apart."""
    order: list[str] = []

    def taker(name: str, value: float | list[float]) -> float | list[float]:
        order.append(name)
        return value

    taken = in_turns(
        {"a": lambda: taker("a", 1.0), "b": lambda: taker("b", [2.0, 3.0])},
        {"a": 4, "b": 2},
        lambda text: None,
    )
    assert taken == {"a": [1.0] * 4, "b": [2.0, 3.0] * 2}
    assert order == ["a", "b", "a", "a", "b", "a"]


def test_the_json_has_targets_and_raw_values() -> None:
    """What is written can be read back, each value with it."""
    data = json.loads(json.dumps(as_json({"case": CASE})))
    assert data["figures"]["case"]["ours"]["raw"] == [1.0, 2.0, 3.0]
    assert data["targets"][1] == {
        "name": "faster than",
        "value": 2.0,
        "target": 3.0,
        "unit": "×",
        "better": "higher",
        "met": False,
    }
    assert data["machine"]["cores"] >= 1


def test_tables_go_between_the_markers(tmp_path: Path) -> None:
    """What a page says around its figures stays; a page that is not there is made."""
    page = tmp_path / "speed.md"
    write_markdown(page, {"case": CASE})
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_markdown(page, {"case": CASE})
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| fast | 2.00 ms | ≤ 3 ms | yes |" in text


def test_an_unknown_case_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the case and those that there are."""
    with pytest.raises(SystemExit) as caught:
        bench.main(["--only", "start,nonsense"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "no case is named 'nonsense'" in error
    assert "start, live, first" in error
