"""The way that each rank took, so that a point of one rank can be found again on another.

A point of an execution is named by *execution indexing* (Xin, Sumner and Zhang, "Efficient Program
Execution Indexing", PLDI 2008): the statements it is nested in, from the outermost function inwards,
each with the pass of every loop around it. Ranks that came to the same point have it under the
same name, whatever else each of them did before.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.explain import _trace as trace
from harness.explain._source import Function, LoopId, Step, function_at, is_of
from harness.explain._trace import Event

Point = tuple[Any, ...]
"""A statement of a function, with the pass of each loop around it."""

Context = int
"""A number for a function called from a certain point of a certain context; the same on all ranks."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that passed through a statement; ``place`` is where it was raised."""

    error: str
    message: str
    place: tuple[str, int, str] | None

    def __str__(self) -> str:
        return f"{self.error}: {self.message}" if self.message else self.error


@dataclass(eq=False)
class Visit:
    """One call of a followed function on one rank."""

    context: Context
    function: Function
    points: dict[Point, int] = field(default_factory=dict)
    """The points in the order in which the rank first came to them, numbered."""
    order: list[Point] = field(default_factory=list)
    steps: dict[Point, Step] = field(default_factory=dict)
    at: Point | None = None
    passes: dict[LoopId, int] = field(default_factory=dict)
    raised: dict[Point, Raised] = field(default_factory=dict)
    values: dict[Point, dict[str, str]] = field(default_factory=dict)
    callees: dict[tuple[Point, str], int] = field(default_factory=dict)
    marks: dict[Point, int] = field(default_factory=dict)
    entered: dict[Point, list[str]] = field(default_factory=dict)
    """The followed functions that were called from each point."""
    left: str = ""
    """How it ended: ``"returned"``, ``"raised"``, or empty if it did not."""

    @property
    def file(self) -> str:
        """The file of the function."""
        return self.function.file

    def come_to(self, line: int) -> None:
        """A line begins."""
        step = self.function.steps.get(line)
        if step is None:
            return
        loop = step.loop
        if loop is not None:
            before = None if self.at is None else self.steps[self.at]
            inside = before is not None and loop in before.loops
            again = self.passes.get(loop, -1) + 1
            # Other lines of the same head are part of the same pass.
            if before is step and line != step.line and step.kind != "comprehension":
                again = self.passes.get(loop, 0)
            self.passes[loop] = again if inside else 0
        passes = self.passes
        around = step.loops
        point: Point = step.place
        if around:
            point = (*point, *[passes.get(each, 0) for each in around])
        self.at = point
        if point not in self.points:
            self.points[point] = len(self.order)
            self.order.append(point)
            self.steps[point] = step

    def after(self, point: Point) -> Point | None:
        """The point that the rank came to next, in this call."""
        place = self.points[point] + 1
        return self.order[place] if place < len(self.order) else None


Spot = tuple[Context, Point]


@dataclass
class Mark:
    """A collective that the rank began: the spots it is nested in, and how many there were before.

    ``chain`` goes from the outermost function inwards. ``ordinal`` counts the collectives that were
    begun at the innermost spot.
    """

    number: int
    chain: tuple[Spot, ...]
    ordinal: int

    @property
    def name(self) -> tuple[Any, ...]:
        """What is the same on all ranks that make this call."""
        return (*self.chain[-1], self.ordinal) if self.chain else ("", self.number)


class Contexts:
    """Numbers contexts, alike for all ranks."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], Context] = {}

    def number(self, *key: Any) -> Context:
        """The number of the function called so."""
        return self._numbers.setdefault(key, len(self._numbers))


class Path:
    """What one rank did, from its events."""

    def __init__(
        self, rank: int, events: Iterable[Event], contexts: Contexts, until: float = float("inf")
    ) -> None:
        self.rank = rank
        self.visits: dict[Context, Visit] = {}
        self.marks: dict[int, Mark] = {}
        self.failures: list[tuple[Spot, ...]] = []
        """Where exceptions passed through, by time, each with the spots around it."""
        self.full = False
        """Whether there was no room, or no time, for all of its events."""
        self.changed = ""
        """A file that is no longer the one from which the code was made."""
        self.last: tuple[Spot, ...] = ()
        """Where the rank was when the trace ends, or when it left the outermost function."""
        self._contexts = contexts
        self._frames: dict[int, Visit] = {}
        self._stack: list[Visit] = []
        self._entering: tuple[int, Any] | None = None
        self._out_of_call: Raised | None = None
        for number, event in enumerate(events):
            if not number % 4096 and time.monotonic() > until:
                self.full = True
                break
            self._take(*event)
        if self._stack:
            self.last = self._chain()

    def _take(self, kind: int, frame: int, number: int, note: Any) -> None:
        if self._entering is not None:
            self._enter(self._frames.get(number) if kind == trace.PARENT else None)
        visit = self._frames.get(frame)
        if kind == trace.LINE:
            if visit is not None:
                visit.come_to(number)
        elif kind == trace.FULL:
            self.full = True
        elif kind == trace.ENTER:
            self._entering = frame, note
        elif kind == trace.CALL:
            self._call(number)
        elif visit is not None:
            self._within(kind, number, note, visit)

    def _enter(self, parent: Visit | None) -> None:
        assert self._entering is not None
        frame, (file, name, first, lines) = self._entering
        self._entering = None
        point = None if parent is None else parent.at
        ordinal = 0
        if parent is not None and point is not None:
            ordinal = parent.callees.get((point, name), 0)
            parent.callees[point, name] = ordinal + 1
            parent.entered.setdefault(point, []).append(name)
        else:
            ordinal = sum(v.file == file and v.function.name == name for v in self.visits.values())
        context = self._contexts.number(
            -1 if parent is None else parent.context, point, file, name, first, ordinal
        )
        unread = Function(file, name, first, first, None)
        function = function_at(file, name, first) or unread
        if not is_of(function, first, lines):
            self.changed = file
        visit = self._frames[frame] = self.visits[context] = Visit(context, function)
        self._stack.append(visit)

    def _within(self, kind: int, number: int, note: Any, visit: Visit) -> None:
        if kind == trace.LEAVE:
            visit.left = "raised" if number else "returned"
            if len(self._stack) == 1:
                self.last = self._chain()
            while self._stack and self._stack.pop() is not visit:
                pass
        elif kind == trace.RESUME:
            visit.left = ""
            self._stack.append(visit)
        elif visit.at is None:
            return
        elif kind == trace.RAISED:
            self._raise(visit, visit.at, Raised(*note))
        elif kind == trace.VALUES:
            held = visit.values.setdefault(visit.at, {})
            held.update((text, value) for text, value in note if text not in held)
        elif kind == trace.RETURNED:
            name, value = note
            visit.values.setdefault(visit.at, {})[f"{name}()"] = value

    def _raise(self, visit: Visit, point: Point, raised: Raised) -> None:
        """An exception passes through, unless it came out of a collective.

        That is no decision of the code's, and may be no more than the end of the world.
        """
        if visit.marks.get(point) or raised == self._out_of_call:
            self._out_of_call = raised
            return
        visit.raised[point] = raised
        self.failures.append(self._chain())

    def _call(self, number: int) -> None:
        chain = self._chain()
        ordinal = 0
        if self._stack and self._stack[-1].at is not None:
            innermost = self._stack[-1]
            assert innermost.at is not None
            ordinal = innermost.marks.get(innermost.at, 0)
            innermost.marks[innermost.at] = ordinal + 1
        self.marks[number] = Mark(number, chain, ordinal)

    def _chain(self) -> tuple[Spot, ...]:
        return tuple((v.context, v.at) for v in self._stack if v.at is not None)

    def been_at(self, spot: Spot) -> bool:
        """Whether the rank came to this point."""
        visit = self.visits.get(spot[0])
        return visit is not None and spot[1] in visit.points

    def inside(self, spot: Spot) -> bool:
        """Whether the rank is still at this point as the trace ends."""
        visit = self.visits.get(spot[0])
        return visit is not None and spot in self.last and visit.at == spot[1]
