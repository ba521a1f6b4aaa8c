"""The async calls of one rank, and its groups: what is in flight, what is over, what is left.

In flight is a call from its record until user code waits for it (or learns that it is done).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from itertools import pairwise

from harness.record import (
    Call,
    Creation,
    Destruction,
    GroupMade,
    NonMember,
    TensorInfo,
    Touched,
)
from harness.verdict._signature import base_op
from harness.verdict._sites import lines, told_apart

IN_PLACE = frozenset({"all_reduce", "broadcast", "reduce"})
"""These overwrite what they are handed."""
USERS = frozenset({"work", "tensor"})
"""Works that user code holds; C++, and torch's own Python, know when theirs are over."""
AS_STORED = frozenset({"all_reduce", "broadcast", "reduce"})
"""gloo reads these tensors' memory from first to last byte, whatever their strides."""
SHAPE_ONLY = frozenset(
    f"{name}_like" for name in ("empty", "zeros", "ones", "full", "rand", "randn", "randint")
)
"""These look at a tensor's shape and type, not at what is in it."""
DOUBLING = frozenset({"SUM", "AVG", "PRODUCT", "PREMUL_SUM"})

MOST_FLYING = 4096
MOST_KEPT = 64
MOST_REDUCED = 4096


@dataclass(frozen=True, slots=True)
class Hazard:
    """A buffer of ``call`` was in danger: by user code at ``touched``, or by the call ``other``.

    ``detail`` is ``"written"``, ``"read"``, ``"resized"``, ``"overlap"``, ``"outputs"`` or
    ``"strided"``.
    """

    detail: str
    call: Call
    time: float
    touched: Touched | None = None
    other: Call | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Doubled:
    """``second`` reduces what ``first`` had reduced, with no write between.

    ``sure`` says that the two were meant for two things.
    """

    first: Call
    second: Call
    sure: bool


@dataclass(frozen=True, slots=True)
class Misuse:
    """A group was used (or destroyed, with ``call`` in flight) against ``destruction``."""

    call: Call
    destruction: Destruction


class Works:
    """What a rank's async calls, buffers and groups went through."""

    def __init__(self) -> None:
        self.flying: dict[int, Call] = {}
        self.hazards: list[Hazard] = []
        self.misuses: list[Misuse] = []
        self.doubled: list[Doubled] = []
        self.outside: list[NonMember] = []
        self.dead: dict[str, Destruction] = {}
        self.destroyed: Destruction | None = None
        self.alive: dict[str, Creation] = {}
        self._creating: dict[int, Creation] = {}
        self._buffers: dict[int, list[tuple[Call, TensorInfo, bool]]] = {}
        self._overlaps: dict[int, list[Call]] = {}
        self._reduced: OrderedDict[tuple[str, int, int], Call] = OrderedDict()
        self._recent: deque[Call] = deque(maxlen=2)

    # -- calls ------------------------------------------------------------------------------

    def begin(self, call: Call, size: int) -> None:
        """A call of the rank in a group of ``size`` members begins."""
        gone = self.dead.get(call.group)
        if gone is not None:
            self._misuse(Misuse(call, gone))
        self._shapes(call, size)
        if call.op == "all_reduce":
            self._reduces(call)
        self._recent.append(call)
        if call.held not in USERS or call.op == "monitored_barrier":
            return
        if self.flying:
            self._overlap(call)
        if call.async_op is not False and _has_memory(call) and len(self.flying) < MOST_FLYING:
            self.flying[call.call] = call
            for tensor, writes in _buffers(call):
                self._buffers.setdefault(tensor.storage, []).append((call, tensor, writes))

    def end(self, number: int) -> None:
        """User code waits for the call, or knows that it is over."""
        call = self.flying.pop(number, None)
        if call is None:
            return
        for tensor, _ in _buffers(call):
            left = [b for b in self._buffers.get(tensor.storage, ()) if b[0] is not call]
            if left:
                self._buffers[tensor.storage] = left
            else:
                self._buffers.pop(tensor.storage, None)
        # The work was held until now, and so was its memory: the ranges did overlap.
        for other in self._overlaps.pop(number, ()):
            self._hazard(Hazard("overlap", call, other.time, other=other))

    def touched(self, record: Touched) -> None:
        """User code used a buffer in flight."""
        call = self.flying.get(record.call)
        if call is None:
            return
        if record.how == "read":
            if call.op == "broadcast" and call.root == call.rank:
                return  # the root's buffer is only read by the call, too
            if record.by in SHAPE_ONLY or record.by.startswith("new_"):
                return
        # Only the version counter has moved: so it does for a write to another view, and for
        # what gloo itself copies into outputs.
        counted = record.how == "written" and not record.by
        if counted and call.outputs:
            return
        self._hazard(Hazard(record.how, call, record.time, touched=record, sure=not counted))

    def _hazard(self, hazard: Hazard) -> None:
        if len(self.hazards) < MOST_KEPT:
            self.hazards.append(hazard)

    def _misuse(self, misuse: Misuse) -> None:
        if len(self.misuses) < MOST_KEPT:
            self.misuses.append(misuse)

    def _overlap(self, call: Call) -> None:
        for tensor, writes in _buffers(call):
            for other, theirs, written in self._buffers.get(tensor.storage, ()):
                if other is not call and (writes or written) and overlap(tensor, theirs):
                    self._overlaps.setdefault(other.call, []).append(call)
                    return

    def _shapes(self, call: Call, size: int) -> None:
        """What is wrong with the buffers of one call, whatever else is in flight."""
        if size > 1 and call.op in AS_STORED and not all(t.dense for t in call.inputs):
            self._hazard(Hazard("strided", call, call.time))
        outputs = [t for t in call.outputs if t.extent]
        if len(outputs) < 2:
            return
        ordered = sorted(outputs, key=lambda t: (t.start, t.extent))
        if any(overlap(a, b) for a, b in pairwise(ordered)):
            self._hazard(Hazard("outputs", call, call.time))

    def _reduces(self, call: Call) -> None:
        """Follow in-place reductions: is what was reduced already reduced once more?"""
        tensor = call.inputs[0] if len(call.inputs) == 1 else None
        if tensor is None or not tensor.serial or not tensor.extent:
            return
        recent = self._recent
        if self.doubled and recent and self.doubled[-1].second is recent[-1]:
            self._goes_on(call)
        place = (call.group, tensor.serial, tensor.start)
        first = self._reduced.pop(place, None)
        self._reduced[place] = call
        if len(self._reduced) > MOST_REDUCED:
            self._reduced.popitem(last=False)
        if first is None or len(self.doubled) >= MOST_KEPT or not _same_again(first, call):
            return
        apart = told_apart(first, call)
        if apart == "name":
            self.doubled.append(Doubled(first, call, True))
        elif apart != "counter" and recent and recent[-1] is first:
            among = len(recent) > 1 and _one_loop(recent[-2], call) and _other(recent[-2], call)
            self.doubled.append(Doubled(first, call, _one_loop(first, call) and among))

    def _goes_on(self, call: Call) -> None:
        """The loop that reduced one tensor twice goes on to another: it walks things, not time."""
        known = self.doubled[-1]
        if known.sure or not _one_loop(known.first, known.second):
            return
        if _one_loop(known.second, call) and _other(known.second, call):
            self.doubled[-1] = Doubled(known.first, known.second, True)

    # -- groups -----------------------------------------------------------------------------

    def creating(self, record: Creation) -> None:
        """The rank begins to make a group."""
        self._creating[record.thread] = record

    def made(self, record: GroupMade) -> None:
        """A group of the rank is there (again)."""
        self.dead.pop(record.key, None)
        for thread, creation in list(self._creating.items()):
            if creation.ranks == tuple(sorted(record.ranks)):
                del self._creating[thread]
                if len(self.alive) < MOST_FLYING:
                    self.alive[record.key] = creation

    def destroys(self, record: Destruction, keys: list[str]) -> None:
        """The rank destroys the groups of ``keys``."""
        self.destroyed = record
        for key in keys:
            self.dead[key] = record
            self.alive.pop(key, None)
        for call in self.flying.values():
            if call.group in keys:
                self._misuse(Misuse(call, record))


def _buffers(call: Call) -> list[tuple[TensorInfo, bool]]:
    """The tensors of a call and whether it writes to them."""
    op = base_op(call.op)
    in_place = op in IN_PLACE and not (op == "broadcast" and call.root == call.rank)
    found = [(t, in_place) for t in call.inputs if t.extent]
    found += [(t, True) for t in call.outputs if t.extent]
    return found


def _has_memory(call: Call) -> bool:
    """A functional call is known again by its memory: without any, its wait is not seen."""
    return call.held != "tensor" or any(t.extent for t in (*call.inputs, *call.outputs))


def overlap(a: TensorInfo, b: TensorInfo) -> bool:
    """Whether two tensors surely share bytes: exact if both are dense, else only at one start."""
    if not a.extent or not b.extent or not a.start or not b.start:
        return False
    if a.dense and b.dense:
        return a.start < b.start + b.extent and b.start < a.start + a.extent
    return a.start == b.start


def _same_again(first: Call, call: Call) -> bool:
    """Whether two reductions change the values twice, and nothing was written in between."""
    one, two = first.inputs[0], call.inputs[0]
    return (
        first.reduce_op in DOUBLING
        and call.reduce_op in DOUBLING
        and one.version == two.version
        and one.extent == two.extent
    )


def _one_loop(a: Call, b: Call) -> bool:
    """Whether two calls come from one line in a ``for`` loop whose passes nothing tells apart."""
    return (
        lines(a.stack) == lines(b.stack)
        and any(f.in_loop and not f.loop for f in b.stack)
        and told_apart(a, b) == ""
    )


def _other(a: Call, b: Call) -> bool:
    return bool(a.inputs and b.inputs and a.inputs[0].serial != b.inputs[0].serial)
