"""Values as short text."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
import torch

from harness.explain._summary import LONGEST, summary


class Kind(enum.Enum):
    """An enumeration."""

    ALL = 1


class Loud:
    """An object that would rather not be printed."""

    def __repr__(self) -> str:
        raise AssertionError("was printed")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (None, "None"),
        ("adam", "'adam'"),
        (Kind.ALL, "Kind.ALL"),
        (torch.tensor(0.25), "float32[] 0.25"),
        (torch.zeros(0, 4), "float32[0, 4]"),
        (torch.tensor([1, 2, 3]), "int64[3] 1 2 3"),
        (torch.arange(8), "int64[8] 0 to 7"),
        (torch.ones(8), "float32[8] all 1"),
        (torch.arange(8.0), "float32[8] 0 to 7, mean 3.5"),
        (torch.tensor([math.nan] * 7), "float32[7] 7 not finite"),
        (torch.tensor([True] * 3 + [False] * 5), "bool[8] 3 true"),
        (torch.empty(2, device="meta"), "float32[2] on meta"),
        ([], "empty list"),
        ([1, 2], "list of 2: 1, 2"),
        ({"b": 1, "a": 2}, "dict of 2: b, a"),
        ({"b": 1}.keys(), "keys of 1: 'b'"),
        ([[1], [2, 3]], "list of 2: list of 1, list of 2"),
        (list(range(9)), "list of 9: 0, 1, 2, 3, 4, 5, ..."),
        (range(3), "range(0, 3)"),
        (torch.float32, "torch.float32"),
        (torch.Size([2, 3]), "(2, 3)"),
        (np.zeros((2, 3)), "float64[2, 3]"),
        (Loud(), "Loud object"),
        ([Loud()], "list of 1: Loud object"),
    ],
)
def test_a_value_is_told_in_short(value: object, text: str) -> None:
    """Numbers as they are, tensors by dtype, shape and figures, containers by what is in them."""
    assert text == summary(value)


@pytest.mark.parametrize("value", [torch, len, Kind, [].__len__, Kind.ALL.__hash__])
def test_what_says_nothing_is_left_out(value: object) -> None:
    """Modules, functions, classes."""
    assert summary(value) is None


def test_it_stays_short() -> None:
    """Whatever is in it."""
    text = summary(["x" * 50, "y" * 50])
    assert text is not None
    assert len(text) == LONGEST
