"""Small programs for the verdict's tests: steps for each rank, run by a model of gloo.

A place is written ``"loss.py:3 in reduce < main.py:12 in main [step=1, name=w] {10.0}"``: frames from
the call site outwards, loop values in brackets, and in braces the arms of the ``if`` statements
around the line (``{?}`` where that is not known); a source line may follow between bars. ``[]`` is a loop of
which no value is seen.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.record import (
    Call,
    Creation,
    Destruction,
    Ended,
    Failed,
    Finished,
    Frame,
    GroupMade,
    Issued,
    NativeWait,
    NonMember,
    Record,
    Stack,
    Started,
    TensorInfo,
    ThreadEnded,
    Touched,
    Value,
    Waiting,
)
from harness.verdict import Finding, Judge

_FRAME = re.compile(
    r"(?P<file>[^:\s]+):(?P<line>\d+)(?: in (?P<function>\S+))?"
    r"(?: \[(?P<loop>[^\]]*)\])?(?: \{(?P<branch>[^}]*)\})?(?: \|(?P<source>[^|]*)\|)?"
)


def stack(place: str) -> Stack:
    """The stack that a place stands for."""
    return tuple(_frame(text.strip()) for text in place.split(" < ")) if place else ()


def _frame(text: str) -> Frame:
    found = _FRAME.fullmatch(text)
    assert found is not None, text
    loop = [pair.split("=") for pair in (found["loop"] or "").split(", ") if pair]
    branch: tuple[tuple[int, int], ...] | None = ()
    if found["branch"] == "?":
        branch = None
    elif found["branch"]:
        arms = [arm.split(".") for arm in found["branch"].split()]
        branch = tuple((int(line), int(arm)) for line, arm in arms)
    source = found["source"] or ""
    return Frame(
        found["file"],
        int(found["line"]),
        found["function"] or "main",
        source,
        tuple((name, value) for name, value in loop),
        branch,
        found["loop"] is not None,
    )


@dataclass(frozen=True, repr=False)
class Step:
    """One thing that a rank does; ``kind`` says what, the rest is as in `Call`."""

    kind: str
    place: str = ""
    op: str = ""
    group: str = "world"
    name: str = ""
    thread: int = 0
    reduce_op: str | None = None
    root: int | None = None
    peer: int | None = None
    tag: int | None = None
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    input_splits: tuple[int, ...] | None = None
    output_splits: tuple[int, ...] | None = None
    asynchronous: bool = False
    from_python: bool = True
    label: str | None = None
    during: str = ""
    ranks: tuple[int, ...] = ()
    local: bool = False
    error: str = ""
    message: str = ""
    threads: tuple[int, ...] = ()
    inside: bool = False
    held: str = "work"
    blocks: bool = True
    raised_at: str = ""
    how: str = ""
    over: str = ""
    wrong: str = ""

    def __repr__(self) -> str:
        """Short, for the sake of Hypothesis' reports."""
        return f"<{self.op or self.kind} {self.group} {self.place} {self.peer} {self.name}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def tensor(shape: Sequence[int] = (3,), dtype: str = "float32") -> TensorInfo:
    """A tensor of a call."""
    return TensorInfo(dtype, tuple(shape))


def at(
    start: int,
    size: int,
    *,
    storage: int = 1,
    version: int = 0,
    dense: bool = True,
) -> tuple[TensorInfo, ...]:
    """One float32 tensor at a place in memory, counted in elements."""
    return (
        TensorInfo(
            "float32", (size,), dense, storage, version, 1000 + 4 * start, 4 * size, dense, storage
        ),
    )


Changes = str | int | bool | None | tuple[int, ...] | tuple[TensorInfo, ...]


def _step(step: Step, changes: dict[str, Changes]) -> Step:
    return replace(step, **changes)  # type: ignore[arg-type]  # names are Step's own


def ar(
    place: str,
    reduce_op: str = "SUM",
    shape: Sequence[int] = (3,),
    dtype: str = "float32",
    **changes: Changes,
) -> Step:
    """all_reduce."""
    tensors = (tensor(shape, dtype),)
    return _step(Step("call", place, "all_reduce", reduce_op=reduce_op, inputs=tensors), changes)


def barrier(place: str, **changes: Changes) -> Step:
    """barrier."""
    return _step(Step("call", place, "barrier"), changes)


def call(
    op: str, place: str, shape: Sequence[int] = (3,), dtype: str = "float32", **changes: Changes
) -> Step:
    """Any other collective on one tensor."""
    return _step(Step("call", place, op, inputs=(tensor(shape, dtype),)), changes)


def send(
    dst: int,
    place: str,
    tag: int = 0,
    shape: Sequence[int] = (4,),
    dtype: str = "float32",
    **changes: Changes,
) -> Step:
    """send, which waits for its receive."""
    step = Step("p2p", place, "send", peer=dst, tag=tag, inputs=(tensor(shape, dtype),))
    return _step(step, changes)


def recv(
    src: int | None,
    place: str,
    tag: int = 0,
    shape: Sequence[int] = (4,),
    dtype: str = "float32",
    **changes: Changes,
) -> Step:
    """recv; from any source with ``src`` None."""
    step = Step("p2p", place, "recv", peer=src, tag=tag, outputs=(tensor(shape, dtype),))
    return _step(step, changes)


def later(step: Step, name: str) -> Step:
    """The same call with ``async_op=True``; `wait` for ``name`` ends it."""
    return replace(step, asynchronous=True, name=name)


def wait(name: str, place: str, thread: int = 0) -> Step:
    """``work.wait()``."""
    return Step("wait", place, name=name, thread=thread)


def touch(name: str, how: str, place: str, by: str = "mul_") -> Step:
    """User code uses a buffer of the call ``name``, which is in flight."""
    return Step("touch", place, op=by, name=name, how=how)


def expect(name: str, place: str, wrong: str = "") -> Step:
    """``harness.expect``."""
    return Step("value", place, op="expect", name=name, wrong=wrong)


def same(name: str, value: str, place: str, over: str = "dp") -> Step:
    """``harness.expect_same``."""
    return Step("value", place, op="expect_same", name=name, message=value, over=over)


def unchanged(name: str, place: str, wrong: str = "") -> Step:
    """``harness.unchanged``, when the rank's function ends."""
    return Step("value", place, op="unchanged", name=name, wrong=wrong)


def outside(op: str, place: str) -> Step:
    """A call on a group that the rank is not a member of."""
    return Step("outside", place, op=op)


def destroy(place: str, group: str = "") -> Step:
    """``destroy_process_group``, of all groups by default."""
    return Step("destroy", place, group=group)


def thread_ends(thread: int) -> Step:
    """A helper thread is over."""
    return Step("thread", thread=thread)


def made(place: str, key: str, ranks: Sequence[int]) -> Step:
    """``new_group`` of a group whose key is known."""
    return Step("create", place, name=key, ranks=tuple(ranks))


def new_group(place: str, ranks: Sequence[int], local: bool = False) -> Step:
    """new_group."""
    return Step("create", place, ranks=tuple(ranks), local=local)


def native(place: str) -> Step:
    """The supervisor finds the rank waiting inside C++ for all its works."""
    return Step("native", place)


def compute() -> Step:
    """The rank never comes back from user code."""
    return Step("compute")


def raises(error: str, message: str, place: str, **changes: Changes) -> Step:
    """An exception leaves the user's function."""
    return _step(Step("end", place, op="raised", error=error, message=message), changes)


def ends(how: str, message: str = "", place: str = "", **changes: Changes) -> Step:
    """Any other end: ``skipped``, ``failed``, ``died`` …"""
    return _step(Step("end", place, op=how, message=message), changes)


def fails(error: str, message: str) -> Step:
    """The call or wait before raises at once when nobody can complete it; the rank goes on."""
    return Step("fails", error=error, message=message)


QUIET = frozenset({"touch", "thread", "outside", "destroy", "value"})

Groups = Mapping[str, Sequence[int]]


@dataclass
class Program:
    """Steps of each rank, and the groups beside ``world`` by name (``dp#2`` is another ``dp``)."""

    steps: dict[int, list[Step]]
    groups: Groups = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.steps)

    def members(self, group: str) -> tuple[int, ...]:
        """The ranks of a group."""
        return tuple(self.steps) if group == "world" else tuple(self.groups[group])


def program(*ranks: Sequence[Step | Iterable[Step]], groups: Groups | None = None) -> Program:
    """A program from one list of steps for each rank; nested lists are flattened."""
    return Program({rank: list(_flat(steps)) for rank, steps in enumerate(ranks)}, groups or {})


def _flat(steps: Sequence[Step | Iterable[Step]]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Step):
            yield step
        else:
            yield from step


class Machine:
    """Runs a program as gloo would: calls of a group pair by position, sends wait for receives."""

    def __init__(self, program: Program, choose: Callable[[list[int]], int] | None = None) -> None:
        self.program = program
        self.choose = choose or (lambda ranks: ranks[0])
        self.records: list[Record] = []
        self.time = 0.0
        self.made: dict[tuple[str, int], int] = {}
        self.slots: dict[tuple[str, int], dict[int, Step]] = {}
        self.posted: dict[tuple[str, int | None, int, int, str], int] = {}
        self.calls: dict[int, int] = {}
        self.names: dict[tuple[int, str], tuple[int, object]] = {}
        self.creations: dict[tuple[object, int], set[int]] = {}
        self.created: dict[tuple[object, int], int] = {}
        self.over: set[int] = set()

    def run(self) -> list[Record]:
        """All records until nothing moves any more, in the order of their times."""
        runs = {rank: self._rank(rank) for rank in self.program.steps}
        ready = list(runs)
        while ready:
            rank = self.choose(ready)
            ready.remove(rank)
            moved = next(runs[rank], None)
            if moved is None:
                continue
            ready.append(rank)
            # Nothing moves any more when no rank does, one after the other.
            if not moved and not any(next(runs[r], True) for r in ready):
                break
        return self.records

    def _emit(self, make: Callable[[float], Record]) -> None:
        self.time += 0.001
        self.records.append(make(self.time))

    def _number(self, rank: int) -> int:
        number = self.calls.get(rank, 0)
        self.calls[rank] = number + 1
        return number

    def _rank(self, rank: int) -> Iterator[bool]:
        """Yields True after each act and False while blocked."""
        for name in ("world", *self.program.groups):
            members = self.program.members(name)
            if rank in members:
                self.records.append(GroupMade(rank, name, members, name.split("#")[0]))
        self._emit(lambda t: Started(rank, t))
        yield True
        steps = self.program.steps[rank]
        for place, step in enumerate(steps):
            following = steps[place + 1] if place + 1 < len(steps) else None
            fails_next = following if following is not None and following.kind == "fails" else None
            if step.kind == "end":
                self._end(rank, step)
                yield True
                return
            if step.kind == "fails":
                continue
            if step.kind == "compute":
                while True:
                    yield False
            yield from self._act(rank, step, fails_next)
        self._end(rank, Step("end", op="returned"))
        yield True

    def _end(self, rank: int, step: Step) -> None:
        self.over.add(rank)
        inside = self.calls.get(rank, 1) - 1 if step.inside else None
        self._emit(
            lambda t: Ended(
                rank,
                step.op,
                t,
                step.error,
                step.message,
                stack=stack(step.place),
                inside=inside,
                threads=step.threads,
            )
        )

    def _act(self, rank: int, step: Step, fails_next: Step | None) -> Iterator[bool]:
        if step.kind in QUIET:
            self._quiet(rank, step)
            yield True
            return
        if step.kind == "wait":
            number, key = self.names[rank, step.name]
            self._emit(lambda t: Waiting(rank, number, step.thread, stack(step.place), t))
            yield True
        elif step.kind == "native":
            while self._open(rank):
                # It is found only when all is quiet: the record comes last.
                self._emit(lambda t: NativeWait(rank, stack(step.place), t))
                yield False
            return
        elif step.kind == "create":
            number, key = self._create(rank, step)
            yield True
        else:
            number, key = self._call(rank, step)
            yield True
            if not step.blocks:
                return  # the thread stays inside; the rank goes on in another one
            if step.asynchronous or step.kind == "p2p":
                self._emit(lambda t: Issued(rank, number, step.thread, t))
                yield True
            if step.asynchronous:
                self.names[rank, step.name] = (number, key)
                return
            if step.kind == "p2p":
                self._emit(lambda t: Waiting(rank, number, step.thread, stack(step.place), t))
                yield True
        while not self._complete(rank, key):
            if fails_next is not None and self.over:
                error, message = fails_next.error, fails_next.message
                self._emit(partial(self._failed, rank, number, step.thread, error, message))
                yield True
                return
            yield False
        if step.kind == "create" and step.name and rank in step.ranks:
            self.records.append(GroupMade(rank, step.name, step.ranks))
        self._emit(lambda t: Finished(rank, number, step.thread, t))
        yield True

    def _quiet(self, rank: int, step: Step) -> None:
        """What neither waits nor pairs with anything."""
        at, thread = stack(step.place), step.thread
        if step.kind == "touch":
            number, _ = self.names[rank, step.name]
            self._emit(lambda t: Touched(rank, number, thread, step.how, step.op, at, t))
        elif step.kind == "thread":
            self._emit(lambda t: ThreadEnded(rank, thread, t))
        elif step.kind == "outside":
            number = self._number(rank)
            self._emit(lambda t: NonMember(rank, number, thread, step.op, at, t))
        elif step.kind == "destroy":
            number = self._number(rank)
            self._emit(lambda t: Destruction(rank, number, thread, step.group, at, t))
            self._emit(lambda t: Finished(rank, number, thread, t))
        else:
            number, digest = self._number(rank), step.message
            self._emit(
                lambda t: Value(
                    rank, number, thread, step.op, step.name, step.over, digest, digest,
                    step.wrong, at, t,
                )
            )  # fmt: skip

    @staticmethod
    def _failed(rank: int, number: int, thread: int, error: str, message: str, t: float) -> Failed:
        return Failed(rank, number, thread, error, message, t)

    def _open(self, rank: int) -> bool:
        return any(
            rank in calls and len(calls) < len(self.program.members(group))
            for (group, _), calls in self.slots.items()
        )

    def _create(self, rank: int, step: Step) -> tuple[int, object]:
        number = self._number(rank)
        scope: object = step.ranks if step.local else None
        index = self.created.get((scope, rank), 0)
        self.created[scope, rank] = index + 1
        self.creations.setdefault((scope, index), set()).add(rank)
        self._emit(
            lambda t: Creation(
                rank, number, step.thread, index, step.ranks, step.local, stack(step.place), t
            )
        )
        needed = len(step.ranks) if step.local else self.program.world_size
        return number, ("create", scope, index, needed)

    def _call(self, rank: int, step: Step) -> tuple[int, object]:
        number = self._number(rank)
        key: object
        if step.kind == "p2p":
            src, dst = (rank, step.peer) if step.op == "send" else (step.peer, rank)
            assert dst is not None
            stream = (step.group, src, dst, step.tag or 0, step.op)
            index = self.posted.get(stream, 0)
            self.posted[stream] = index + 1
            key = ("p2p", stream, index)
        else:
            index = self.made.get((step.group, rank), 0)
            self.made[step.group, rank] = index + 1
            self.slots.setdefault((step.group, index), {})[rank] = step
            key = ("collective", step.group, index)
        self._emit(
            lambda t: Call(
                rank=rank,
                call=number,
                thread=step.thread,
                group=step.group,
                index=index,
                op=step.op,
                reduce_op=step.reduce_op,
                root=step.root,
                peer=step.peer,
                tag=step.tag,
                inputs=step.inputs,
                outputs=step.outputs,
                input_splits=step.input_splits,
                output_splits=step.output_splits,
                async_op=None if step.kind == "p2p" else step.asynchronous,
                stack=stack(step.place),
                time=t,
                from_python=step.from_python,
                label=step.label,
                during=step.during,
                held=step.held,
                raised_at=stack(step.raised_at),
            )
        )
        return number, key

    def _complete(self, rank: int, key: object) -> bool:
        assert isinstance(key, tuple)
        if key[0] == "create":
            return len(self.creations[key[1], key[2]]) >= int(key[3])
        if key[0] == "collective":
            calls = self.slots[key[1], key[2]]
            whole = len(calls) == len(self.program.members(key[1]))
            return whole and len({step.op for step in calls.values()}) == 1
        (group, src, dst, tag, op), index = key[1], key[2]
        if src is None:
            sent = sum(
                count
                for (g, s, d, t, o), count in self.posted.items()
                if (g, d, t, o) == (group, dst, tag, "send") and s is not None
            )
            return sent > int(index)
        other = "recv" if op == "send" else "send"
        count = self.posted.get((group, src, dst, tag, other), 0)
        if op == "send":
            count += self.posted.get((group, None, dst, tag, "recv"), 0)
        return count > int(index)


def records(program: Program, seed: int | None = None) -> list[Record]:
    """The records of a program, for one interleaving of its ranks."""
    if seed is None:
        return Machine(program).run()
    chooser = random.Random(seed)
    return Machine(program, chooser.choice).run()


def arrival(found: Sequence[Record], seed: int) -> list[Record]:
    """The same records as they may arrive: each rank's in order, ranks mixed at will."""
    queues: dict[int, list[Record]] = {}
    for record in found:
        queues.setdefault(record.rank, []).append(record)
    chooser = random.Random(seed)
    mixed: list[Record] = []
    while queues:
        rank = chooser.choice(sorted(queues))
        mixed.append(queues[rank].pop(0))
        if not queues[rank]:
            del queues[rank]
    return mixed


def judged(
    found: Sequence[Record], world_size: int, *, deadline: bool = False, whole: bool = True
) -> list[Finding]:
    """What the judge says; with ``whole`` False it is stopped as the supervisor would stop it."""
    judge = Judge(world_size)
    proved = False
    for record in found:
        judge.add(record)
        proved = judge.fault() or proved
        if proved and not whole and judge.settled():
            break
    findings = judge.findings(deadline=deadline)
    errors = [f for f in findings if f.level == "error" and f.kind != "straggler"]
    assert proved == bool(errors) or whole, "fault() and findings() must agree"
    if errors:
        assert proved, f"a fault that fault() did not see: {errors[0].summary}"
    return findings


def verdict(program: Program, *, deadline: bool = False, seed: int | None = None) -> list[Finding]:
    """What the judge says of a program."""
    return judged(records(program, seed), program.world_size, deadline=deadline)


def only(program: Program, *, deadline: bool = False) -> Finding:
    """The one finding of a faulty program, the same whatever the order of arrival."""
    found = records(program)
    findings = judged(found, program.world_size, deadline=deadline)
    assert len(findings) == 1, [f.summary for f in findings]
    for seed in range(3):
        again = judged(arrival(found, seed), program.world_size, deadline=deadline)
        assert again == findings
    stopped = judged(found, program.world_size, deadline=deadline, whole=False)
    assert [f.kind for f in stopped] == [findings[0].kind]
    return findings[0]


def clean(program: Program) -> bool:
    """Whether the judge has nothing to say, warnings included, whatever the interleaving."""
    for seed in (None, 1, 2, 3):
        found = verdict(program, seed=seed)
        if found:
            raise AssertionError(found[0].summary)
    return True
