"""The example repository, as a downstream runs it: right as it stands, and with one bug at a time.

Run against the installed package (``tox -e example``). Each test copies ``rl_repo`` and runs its
suite in a pytest of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import pytest

RL_REPO = Path(__file__).parent / "rl_repo"

SECONDS = 180


@dataclass(frozen=True)
class Bug:
    """A bug, the tests to run, and the tests that must fail, each with what it must say.

    ``edits`` are (old, new) texts in ``file``; each old text is there once.
    """

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    run: tuple[str, ...]
    fails: dict[str, str]


SKIPPED = r"rank-dependent skip: rank 1 of dp-cp \[0, 1.*\] never made call 1, all_reduce.* at whitening\.py:\d+"

BUGS = [
    Bug(
        "statistics over data-parallel ranks without context-parallel ones",
        "rl/whitening.py",
        (("get_data_parallel_group(with_context_parallel=True)", "get_data_parallel_group()"),),
        ("tests/test_whitening.py", "-k", "global or same_value_on_every_rank"),
        # With cp=1 it makes no difference: [4-1] passes. masked_whiten is handed its group.
        {
            "test_whitening_is_global[1-4]": r"assert .* == .* ± ",
            "test_whitening_is_global[2-2]": r"assert .* == .* ± ",
            "test_whitened_advantages[same_value_on_every_rank-dp1-cp2]": (
                r"likely cause: the statistics were taken over dp without cp"
            ),
        },
    ),
    Bug(
        "a guard that leaves a rank without tokens out",
        "rl/whitening.py",
        (
            (
                "    kept = mask.bool()\n",
                "    if mask.numel() == 0:\n        return values\n    kept = mask.bool()\n",
            ),
        ),
        ("tests/test_whitening.py", "-k", "global or rank_with_no_tokens"),
        # Where each rank has a token it makes no difference: test_whitening_is_global passes.
        {
            "test_masked_whiten[rank_with_no_tokens-dp2-cp2]": SKIPPED,
            "test_whitened_advantages[rank_with_no_tokens-dp1-cp2]": SKIPPED,
        },
    ),
    Bug(
        "the logged KL multiplied in place",
        "rl/advantages.py",
        (("-config.kl_coef * k, *lengths", "k.mul_(-config.kl_coef), *lengths"),),
        ("tests/test_kl.py", "-k", "grpo or ppo or reinforce_plus_plus-"),
        {
            f"test_logged_kl[{law}-{estimator}-dp1-cp1]": said
            for estimator in ("ppo", "reinforce_plus_plus")
            for law, said in (
                ("logged_kl_is_the_kl", r" logs .* as the KL where k1 is \[0\.1, 0\.2, 0\.3\]"),
                ("logged_fields_unchanged", r"compute_advantages_and_returns changes what it has"),
            )
        },
    ),
    Bug(
        "the reward added to the last token that cp rank 0 holds",
        "rl/advantages.py",
        (
            ("import torch\n", "import torch\nfrom megatron.core import mpu\n"),
            (
                "        rewards = gather_response(-config.kl_coef * k, *lengths)\n"
                "        rewards[-1] += reward\n",
                "        rewards = -config.kl_coef * k\n"
                "        if mpu.get_context_parallel_rank() == 0:\n"
                "            rewards[-1] += reward\n"
                "        rewards = gather_response(rewards, *lengths)\n",
            ),
        ),
        ("tests/test_advantages.py",),
        {
            "test_the_reward_is_on_the_last_token[13-9-2]": r"assert \[1\.0, 0\.0",
            # Rank 0 holds nothing of these responses, and the others wait for it.
            **{
                f"test_the_reward_is_on_the_last_token[{case}]": r"rank 0 .*IndexError"
                for case in ("13-9-4", "9-4-2", "9-4-4")
            },
        },
    ),
    Bug(
        "a collective over the world after an early return on one pipeline stage",
        "rl/metrics.py",
        (
            (
                "group = mpu.get_data_parallel_group(with_context_parallel=True)",
                "group = None",
            ),
        ),
        ("tests/test_metrics.py",),
        {
            "test_metrics_are_means_over_the_batch": (
                r"rank-dependent skip: ranks 0, 1 of world \[0, 1, 2, 3\] never made call 1, "
                r"all_reduce\(SUM, float32\[2\]\) at metrics\.py:\d+, and have returned"
            )
        },
    ),
    Bug(
        "another reduce op on one rank",
        "rl/metrics.py",
        (
            (
                "all_reduce(sums, op=dist.ReduceOp.SUM,",
                "all_reduce(sums, op=dist.ReduceOp.SUM if len(rewards) > 1 else dist.ReduceOp.MAX,",
            ),
        ),
        ("tests/test_metrics.py",),
        {"test_metrics_are_means_over_the_batch": r".*reduce op.*SUM.*MAX.*metrics\.py:\d+"},
    ),
]


def _copy(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    return Path(shutil.copytree(RL_REPO, folder / "rl_repo", ignore=ignored))


def _pytest(repo: Path, *arguments: str) -> tuple[set[str], dict[str, str], str]:
    """Run the suite: the ids that passed, those that failed with their texts, and the output."""
    report = repo / "report.xml"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name == "PYTEST_PLUGINS" or not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--junit-xml={report}", *arguments],
        cwd=repo,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    output = done.stdout + done.stderr
    assert report.exists(), output
    passed, failed = set(), {}
    for case in ElementTree.parse(report).iter("testcase"):
        trouble = [child for child in case if child.tag in ("failure", "error", "skipped")]
        if trouble:
            failed[case.attrib["name"]] = "\n".join(
                f"{child.get('message', '')}\n{child.text or ''}" for child in trouble
            )
        else:
            passed.add(case.attrib["name"])
    return passed, failed, output


def test_the_example_passes_as_it_stands(tmp_path: Path) -> None:
    """All tests of the example pass, none is skipped, and none warns."""
    passed, failed, output = _pytest(_copy(tmp_path), "-W", "error")
    assert failed == {}, output
    assert len(passed) > 50, output


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "_"))
def test_a_bug_fails_the_right_tests_with_the_right_verdict(bug: Bug, tmp_path: Path) -> None:
    """Exactly the tests that are about the bug fail, and each says what is wrong."""
    repo = _copy(tmp_path)
    source = repo / bug.file
    text = source.read_text()
    for old, new in bug.edits:
        assert text.count(old) == 1, f"{bug.file} does not have this once: {old}"
        text = text.replace(old, new)
    source.write_text(text)

    _, failed, output = _pytest(repo, *bug.run)

    assert set(failed) == set(bug.fails), output
    for name, said in bug.fails.items():
        assert re.search(said, failed[name]), f"{name} does not say {said!r}:\n{failed[name]}"
