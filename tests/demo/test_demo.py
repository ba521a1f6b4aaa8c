"""The demo computes its figures on real worlds, and says plainly what it was asked wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.__main__ import main
from harness.demo import _check, _figures

RIGHT = [1.439168, -0.616786, -1.130775]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run ``python -m harness`` in an empty folder, so that the installed package is found."""
    folder = tmp_path_factory.mktemp("demo")

    def run_there(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run_there


@pytest.fixture(scope="module")
def figures(run: Run) -> dict[str, Any]:
    """What ``demo --json`` prints."""
    done = run("demo", "--json")
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    """What ``demo`` prints."""
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def _table(rows: list[list[float]]) -> Any:
    return [pytest.approx(row, abs=1e-6) for row in rows]


@pytest.mark.parametrize(("key", "ranks"), [("cp1", 1), ("cp2", 2), ("cp4", 4)])
def test_the_right_group_gives_one_figure_everywhere(
    figures: dict[str, Any], key: str, ranks: int
) -> None:
    """Each rank at each cp gives each sequence the same advantage."""
    assert figures["right_group"][key] == _table([RIGHT] * ranks)


def test_the_wrong_group_gives_each_rank_its_own_figures(figures: dict[str, Any]) -> None:
    """Without cp in the group the halves of a sequence get different advantages."""
    assert figures["wrong_group"]["cp1"] == _table([RIGHT])
    assert figures["wrong_group"]["cp2"] == _table(
        [[1.707037, -0.457986, -0.999241], [1.273883, -0.740629, -1.244257]]
    )
    of_first = [row[0] for row in figures["wrong_group"]["cp4"]]
    assert of_first == pytest.approx([1.454037, 1.801567, 1.321055, 1.259488], abs=1e-6)


def test_the_tokens_of_the_ranks_are_the_response(figures: dict[str, Any]) -> None:
    """At each cp the ranks together own each response token once."""
    for rows in figures["tokens"].values():
        assert [sum(of_sequence) for of_sequence in zip(*rows, strict=True)] == [48, 90, 12]


def test_the_skip_names_rank_and_line_at_once(figures: dict[str, Any]) -> None:
    """The guarded all_reduce is found on the rank without tokens, before any timeout."""
    skip = figures["skip"]
    assert (skip["kind"], skip["rank"]) == ("missing_participant", 1)
    assert skip["tokens"] == [16, 0, 16, 32]
    assert 0 <= skip["seconds_to_verdict"] < 0.25
    file, _, line = skip["line"].rpartition(":")
    assert "dist.all_reduce(sums" in Path(file).read_text().splitlines()[int(line) - 1]
    assert skip["report"].splitlines()[0] == skip["summary"]
    assert skip["summary"].startswith("rank-dependent skip: rank 1 of dp-cp [0, 1, 2, 3]")


def test_the_skip_shows_the_guard_and_its_values(figures: dict[str, Any], text: str) -> None:
    """The line of the ``if`` is named, with what it came out as on the rank at fault and another."""
    skip = figures["skip"]
    assert "if mask.numel() > 0:" == skip["guard"]
    assert "True: mask.numel() = 16" == skip["decided_by"]["0"]
    assert "False: mask.numel() = 0" == skip["decided_by"]["1"]
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "diverged at harness/demo/_ranks.py" in line)
    shown = "\n".join(lines[start : start + 8])  # the line itself may not fit beside a long path
    assert "if mask.numel() > 0:" in shown
    assert "mask.numel() = 16" in shown
    assert "mask.numel() = 0" in shown


def test_the_logged_kl_is_overwritten_at_each_coefficient(figures: dict[str, Any]) -> None:
    """The in-place bug leaves the shaped reward in the log, at kl_coef 0 too."""
    kl = figures["kl"]
    assert kl["before"] == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)
    assert kl["after"] == pytest.approx([-0.005, -0.01, 0.985], abs=1e-6)
    assert kl["after_at_kl_coef_0"] == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


def test_the_laws_say_what_is_wrong(figures: dict[str, Any]) -> None:
    """Both laws notice their fault and name its likely cause."""
    assert "with_context_parallel=True" in figures["wrong_group_said"]
    assert "this is the shaped reward" in figures["kl"]["said"]


def test_the_text_shows_every_figure(figures: dict[str, Any], text: str) -> None:
    """Everything that the JSON form has is on the page, both groups side by side."""
    lines = text.splitlines()
    for key in ("cp1", "cp2", "cp4"):
        for wrong, right in zip(
            figures["wrong_group"][key], figures["right_group"][key], strict=True
        ):
            shown = [f"{value:+.6f}" for value in (*wrong, *right)]
            assert any(all(figure in line for figure in shown) for line in lines), shown
    assert "rank-dependent skip: rank 1 of dp-cp [0, 1, 2, 3] never made call 1" in text
    assert "180 s" in text
    for value in ("+0.300", "-0.005", "-0.010", "+0.985"):
        assert value in text


def test_the_text_fits_a_terminal(text: str) -> None:
    """No line is longer than 100 characters."""
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no command given; there is: demo, show"),
        (["dmeo"], "unknown command 'dmeo'; did you mean 'demo'?"),
        (["frobnicate"], "unknown command 'frobnicate'; there is: demo, show"),
        (["demo", "--js"], "unrecognized arguments: --js"),
        (["demo", "more"], "unrecognized arguments: more"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command or option ends with one line that says what is wrong and where help is."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"python -m harness: error: {said} (help: python -m harness --help)"


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_names_the_demo(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Help goes to standard output and ends well."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "demo" in capsys.readouterr().out


SKIP = _figures.Skip(
    kind="missing_participant",
    rank=1,
    line="x.py:1",
    guard="if mask.numel() > 0:",
    decided_by={0: "True: mask.numel() = 3", 1: "False: mask.numel() = 0"},
    seconds_to_verdict=0.01,
    tokens=[3, 0],
    summary="skip",
    report="skip",
)

GOOD = _figures.Figures(
    whitening=_figures.Whitening(
        wrong={1: [[1.0]], 2: [[1.0], [2.0]]},
        right={1: [[1.0]], 2: [[1.0], [1.0]]},
        tokens={1: [[2]], 2: [[1], [1]]},
        said="differs",
    ),
    skip=SKIP,
    kl=_figures.Kl(0.05, [0.1], [0.9], [1.0], "differs"),
)


def _with(**parts: Any) -> _figures.Figures:
    kept: dict[str, Any] = {"whitening": GOOD.whitening, "skip": GOOD.skip, "kl": GOOD.kl}
    return _figures.Figures(**{**kept, **parts})


def test_figures_as_promised_are_no_problem() -> None:
    """The check has nothing to say of the right outcome."""
    assert _check.problems(GOOD) == []


@pytest.mark.parametrize(
    ("figures_", "said"),
    [
        (_with(skip=None), "the guarded all_reduce was not caught"),
        (
            _with(skip=replace(SKIP, kind="deadlock", summary="a cycle")),
            "the guarded all_reduce was caught as deadlock: a cycle",
        ),
        (
            _with(skip=replace(SKIP, guard="", decided_by=SKIP.decided_by)),
            "the guard of the all_reduce was not named, but nothing",
        ),
        (
            _with(skip=replace(SKIP, decided_by={})),
            "the guard is said to have come out as {}, not {0: 'True: mask.numel() = 3', "
            "1: 'False: mask.numel() = 0'}",
        ),
        (
            _with(kl=_figures.Kl(0.05, [0.1], [0.1], [1.0], "differs")),
            "the in-place bug left the logged KL alone: [0.1]",
        ),
        (
            _with(
                whitening=_figures.Whitening(
                    wrong={1: [[1.0]], 2: [[1.0], [1.0]]},
                    right={1: [[1.0]], 2: [[1.0], [1.0]]},
                    tokens={1: [[2]], 2: [[1], [1]]},
                    said="differs",
                )
            ),
            "wrong group: all ranks agree at cp=2, where they should not",
        ),
        (
            _with(
                whitening=_figures.Whitening(
                    wrong={1: [[1.0]], 2: [[1.0], [2.0]]},
                    right={1: [[1.0]], 2: [[1.0], [1.5]]},
                    tokens={1: [[2]], 2: [[1], [1]]},
                    said="differs",
                )
            ),
            "right group: rank 1 at cp=2 gives [1.5], and rank 0 at cp=1 gives [1.0]",
        ),
    ],
)
def test_another_outcome_is_a_problem(figures_: _figures.Figures, said: str) -> None:
    """The demo fails, and says so, when its worlds do not show what it promises."""
    assert _check.problems(figures_) == [said]
