"""Where a call came from: keys of calls, program order, and what loop values say."""

from __future__ import annotations

from dataclasses import dataclass

from harness.record import Call, Frame, Stack

Key = tuple[str, str | None, tuple[tuple[str, int, str, tuple[tuple[str, str], ...]], ...]]
Lines = tuple[tuple[str, int], ...]


def key(call: Call, idle: frozenset[str] = frozenset()) -> Key:
    """What makes two ranks' calls *the same call* of the program: operation, stack, loop values.

    Loop variables in ``idle`` are left out.
    """
    if not idle:
        return call.op, call.label, tuple((f.file, f.line, f.function, f.loop) for f in call.stack)
    frames = tuple(
        (f.file, f.line, f.function, tuple(pair for pair in f.loop if pair[0] not in idle))
        for f in call.stack
    )
    return call.op, call.label, frames


def lines(stack: Stack) -> Lines:
    """The stack without loop values: the place in the program, whatever the pass."""
    return tuple((f.file, f.line) for f in stack)


def same_place(a: Stack, b: Stack) -> bool:
    """Whether two stacks have the same lines, whatever the loop values."""
    return a is b or lines(a) == lines(b)


@dataclass(frozen=True, slots=True)
class LoopEvidence:
    """Loop variables that two stacks share: how many agree, and those that do not."""

    agree: int
    differ: tuple[tuple[str, str, str], ...]


def loop_evidence(a: Stack, b: Stack) -> LoopEvidence:
    """Compare the loop values of the frames that two stacks share, from the outermost in."""
    agree = 0
    differ: list[tuple[str, str, str]] = []
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x.file != y.file or x.function != y.function:
            break
        for (name, ours), (other, theirs) in zip(x.loop, y.loop, strict=False):
            if name != other:
                break
            if ours == theirs:
                agree += 1
            else:
                differ.append((name, ours, theirs))
        if x.line != y.line:
            break
    return LoopEvidence(agree, tuple(differ))


def is_number(value: str) -> bool:
    """Whether a loop value is an integer (a counter says less than a name)."""
    return value.removeprefix("-").isdigit()


def exclusive(a: Frame, b: Frame) -> bool:
    """Whether two lines of a function stand in different arms of one ``if``."""
    arms = dict(a.branch or ())
    return any(arms.get(line, arm) != arm for line, arm in b.branch or ())


def forward(a: Stack, b: Stack) -> bool:
    """Whether a rank that stands at ``b`` is beyond ``a`` in the program.

    Decided in the outermost frame where the two part: on one line by a loop counter, else by the
    order of the lines, if they are known not to exclude each other and no loop counter speaks
    against it. False also means "cannot be told".
    """
    parted = _parting(a, b)
    if parted is None:
        return False
    x, y, ahead = parted
    if x.line == y.line:
        return ahead is True
    return x.line < y.line and ahead is not False and _in_sequence(x, y)


def follows(a: Stack, b: Stack) -> bool:
    """Whether one rank's next call ``b`` after ``a`` needs no loop but the counted ones seen.

    As `forward`; and a counter that went up explains a step back to an earlier line.
    """
    parted = _parting(a, b)
    if parted is None:
        return False
    x, y, ahead = parted
    if x.line == y.line or ahead is True:
        return ahead is True
    return x.line < y.line and ahead is None and _in_sequence(x, y)


def _parting(a: Stack, b: Stack) -> tuple[Frame, Frame, bool | None] | None:
    """The outermost frames where two stacks part, and whether a shared loop counter is ahead.

    None where they part by a call to another function or by a loop value that is no number.
    """
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x.file != y.file or x.function != y.function:
            return None
        for (name, before), (other, after) in zip(x.loop, y.loop, strict=False):
            if name != other:
                break
            if before != after:
                if not (is_number(before) and is_number(after)):
                    return None
                return x, y, int(before) < int(after)
        if x.line != y.line:
            return x, y, None
    return None


def by_counter(a: Stack, b: Stack) -> bool:
    """Whether it is only a loop counter that tells on which side of ``a`` the place ``b`` is."""
    parted = _parting(a, b)
    return parted is not None and parted[0].line == parted[1].line


def once_only(a: Stack, b: Stack) -> bool:
    """Whether no ``for`` loop is around the frame in which two stacks part, nor further out."""
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x.in_loop or y.in_loop or x.loop or y.loop:
            return False
        if x != y:
            return True
    return True


def in_loop(stack: Stack) -> bool:
    """Whether a ``for`` loop is around the call in any of its frames."""
    return any(frame.in_loop or frame.loop for frame in stack)


def _in_sequence(a: Frame, b: Frame) -> bool:
    return a.branch is not None and b.branch is not None and not exclusive(a, b)


def told_apart(a: Call, b: Call) -> str:
    """What tells two calls from one line apart: ``"name"``, ``"counter"``, ``"line"`` or nothing.

    A name is a label or a loop value that is a text; a counter is one that is a number.
    """
    if a.label != b.label:
        return "name"
    if lines(a.stack) != lines(b.stack):
        return "line"
    found = ""
    for x, y in zip(a.stack, b.stack, strict=True):
        before, after = dict(x.loop), dict(y.loop)
        for name in before.keys() & after.keys():
            one, two = before[name], after[name]
            if one == two:
                continue
            if not (is_number(one) and is_number(two)):
                return "name"
            found = "counter"
    return found
