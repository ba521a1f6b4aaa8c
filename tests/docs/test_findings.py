"""The reference of findings: whole, true, and as the code has it now."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    # The programs go to the ranks by name; at the end of the path, so that the installed package wins.
    sys.path.append(ROOT)

from tests.docs import _findings, _generated  # noqa: E402
from tests.docs._findings import Kind  # noqa: E402
from tests.docs._generated import Maker  # noqa: E402
from tests.docs._vocabulary import Vocabulary, read_source, vocabulary  # noqa: E402

KINDS = list(_findings.kinds())
PAGES = list(_generated.pages())


def test_every_kind_of_the_verdict_has_an_entry() -> None:
    """The kinds that are written out in harness/verdict are those that are described."""
    found = vocabulary()
    assert [] == found.unread
    assert found.kinds == {kind.name for kind in KINDS}


def test_every_detail_of_the_verdict_is_explained() -> None:
    """A detail that is written out in harness/verdict is in the list of a kind."""
    explained = {name for kind in KINDS for name in kind.detail_names}
    assert set() == vocabulary().details - explained


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_program_has_this_finding_alone_and_its_correction_none(kind: Kind) -> None:
    """The faulty form gives one finding, of this kind, level and a known detail; the other is silent."""
    said = _findings.run(kind, kind.faulty)
    assert [kind.name] == [finding.kind for finding in said.findings], said.text
    assert said.findings[0].level in kind.level
    assert said.findings[0].detail in {"", *kind.detail_names}
    silent = _findings.run(kind, kind.fixed)
    assert () == silent.findings, silent.text


@pytest.mark.parametrize(("file", "make"), PAGES, ids=[file.stem for file, _ in PAGES])
def test_generated_pages_are_up_to_date(file: Path, make: Maker) -> None:
    """What is committed is what the code says now, but for times."""
    text = _generated.news(file, make)
    assert "" == text, "run python -m tests.docs --write and look at the changes"


def test_no_page_is_left_of_a_kind_that_is_gone() -> None:
    """Each page in the folder of findings is made from a kind."""
    assert set(_generated.FINDINGS.glob("*.md")) == {f for f, _ in PAGES if "findings" in f.parts}


def test_a_kind_that_is_not_written_out_is_refused() -> None:
    """The vocabulary is read from the source, so a computed kind must not pass unseen."""
    found = Vocabulary()
    source = """
Finding(f"a_{b}", "summary")
Finding("new_kind", "summary", detail="new_detail")
replace(finding, kind="other_kind")
kind = "this" if a else "that"
"""
    read_source(Path("x.py"), ast.parse(source), found)
    assert {"new_kind", "other_kind", "this", "that"} == found.kinds
    assert {"new_detail"} == found.details
    assert ["x.py:2: Finding(f'a_{b}', 'summary')"] == found.unread
