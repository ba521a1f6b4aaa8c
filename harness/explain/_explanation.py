"""Explanations: where in the code ranks took different ways, and the values that decided it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Way:
    """The way that some ranks took; ranks that are alike are taken together.

    ``outcome`` is in words: ``"True"``, ``"2 passes"``, ``"raised ValueError: bad row"``. ``values``
    are pairs of a sub-expression and its value as text, ``("mask.numel()", "150")`` or
    ``("mask", "float32[150]")``: those that differ between ranks, in the order of the source.
    """

    ranks: tuple[int, ...]
    outcome: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Divergence:
    """A place at which ranks took different ways.

    ``kind`` is the statement: ``"if"``, ``"while"``, ``"for"``, ``"match"``, ``"try"`` (an exception
    on some ranks), ``"assert"``, ``"and"`` or ``"or"`` (a short circuit), ``"if else"`` (a
    conditional expression), ``"comprehension"``, ``"order"`` (a loop over the same or other things in
    another order), ``"call"`` (another function was called). ``source`` is the line as it is in the
    file, without indentation. ``note`` says more in plain words: where an exception was swallowed,
    in which pass of which loop.
    """

    file: str
    line: int
    function: str
    source: str
    kind: str
    ways: tuple[Way, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a second, traced run of the world has shown.

    ``divergence`` is the place that caused the fault; None where it was not found, and then
    ``reason`` says why, and ``differed`` lists places at which the ranks took different ways, of
    which none can be shown to be the cause. ``seconds`` is what the second run took.
    """

    divergence: Divergence | None = None
    reason: str = ""
    differed: tuple[Divergence, ...] = ()
    seconds: float = 0.0
