"""Expressions are evaluated again only where that cannot change anything."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from harness.explain._evaluate import Unsafe, evaluate
from harness.layout import Layout, Rank


class Config:
    """An object with plain attributes, and some that run code."""

    limit = 3

    def __init__(self) -> None:
        self.name = "adam"
        self.asked = 0

    @property
    def counted(self) -> int:
        """A property with an effect."""
        self.asked += 1
        return self.asked

    def __len__(self) -> int:
        self.asked += 1
        return 1


class Lazy:
    """Answers to every name."""

    def __getattr__(self, name: str) -> int:
        raise AssertionError("was asked")


class Sized(torch.nn.Module):
    """A module with a length that code of the user's tells."""

    def __len__(self) -> int:
        raise AssertionError("was asked")


class Say(type):
    """Has a say in what is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        raise AssertionError("was asked")


class Anything(metaclass=Say):
    """Everything may be one."""


class Watched:
    """Looks at each attribute that is asked for."""

    def __init__(self) -> None:
        self.size = 1

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Key:
    """Is looked up by code of the user's."""

    def __hash__(self) -> int:
        raise AssertionError("was asked")


def names() -> dict[str, Any]:
    """What a frame may hold."""
    return {
        "mask": torch.tensor([True, False]),
        "loss": torch.tensor(2.5, requires_grad=True),
        "config": Config(),
        "lazy": Lazy(),
        "table": {"a": 1},
        "growing": defaultdict(list),
        "counted": Counter("aab"),
        "queue": deque([1, 2]),
        "sized": Sized(),
        "Any": Anything,
        "watched": Watched(),
        "key": Key(),
        "steps": [1, 2, 3],
        "rank": Rank(1, Layout(2, 1)),
        "once": iter([1]),
        "torch": torch,
        "model": torch.nn.Linear(2, 1),
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mask.numel()", 2),
        ("mask.any().item()", True),
        ("loss.item() > 2 and not mask.all()", True),
        ("config.name", "adam"),
        ("config.limit", 3),
        ("len(steps) % 2", 1),
        ("steps[-1]", 3),
        ("steps[1:]", [2, 3]),
        ("'a' in table", True),
        ("table.get('b', 7)", 7),
        ("sorted(counted.items())", [("a", 2), ("b", 1)]),
        ("counted['a']", 2),
        ("len(queue)", 2),
        ("isinstance(table, dict)", True),
        ("isinstance(steps, (dict, tuple))", False),
        ("isinstance(model, torch.nn.Linear)", True),
        ("sorted(table)", ["a"]),
        ("rank.dp", 1),
        ("rank == 1", True),
        ("model.weight.shape[0]", 1),
        ("model.weight.grad is None", True),
        ("1 if steps else 2", 1),
        ("config is None", False),
        ("torch.isfinite(loss).all().item()", True),
    ],
)
def test_what_has_no_effect_is_evaluated(text: str, value: object) -> None:
    """Names, items, attributes, comparisons, and functions known to have no effect."""
    assert value == evaluate(text, names(), {})


@pytest.mark.parametrize(
    "text",
    [
        "config.counted",
        "len(config)",
        "bool(config)",
        "not config",
        "config == 3",
        "config in steps",
        "[config] == [1]",
        "max([config], steps)",
        "lazy.anything",
        "growing['new']",
        "counted['new']",
        "len(sized)",
        "isinstance(1, Any)",
        "watched.size",
        "table[key]",
        "next(once)",
        "list(once)",
        "print(steps)",
        "steps.append(4)",
        "steps.pop()",
        "mask.zero_()",
        "mask.fill_(True)",
        "torch.manual_seed(1)",
        "model(loss)",
        "missing",
        "(steps := [])",
        "[x for x in once]",
        "(lambda: 1)()",
        "mask[9]",
        "1 / 0",
    ],
)
def test_what_may_have_an_effect_is_not(text: str) -> None:
    """Code of the user's, iterators, calls of unknown functions, and what fails: all refused."""
    held = names()
    with pytest.raises(Unsafe):
        evaluate(text, held, {})
    assert 0 == held["config"].asked
    assert [1, 2, 3] == held["steps"]
    assert {} == held["growing"]
    assert [1] == list(held["once"])


def test_a_tensor_subclass_is_left_alone() -> None:
    """The truth of a DTensor, say, may take a collective."""

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("an operation ran")

    held = {"x": torch.ones(2).as_subclass(Watched)}
    for text in ("x.any()", "x.numel()", "not x", "x > 0"):
        with pytest.raises(Unsafe):
            evaluate(text, held, {})


def test_gradients_do_not_see_it() -> None:
    """Nothing is added to the graph of the user's tensors."""
    loss = torch.tensor(2.0, requires_grad=True)
    assert evaluate("loss.abs()", {"loss": loss}, {}).grad_fn is None


def generator() -> Iterator[int]:
    """Never to be advanced."""
    yield 1


def test_a_generator_is_not_advanced() -> None:
    """Its elements are the program's."""
    held = {"g": generator()}
    for text in ("sum(g)", "any(g)", "sorted(g)", "1 in g"):
        with pytest.raises(Unsafe):
            evaluate(text, held, {})
    assert [1] == list(held["g"])
