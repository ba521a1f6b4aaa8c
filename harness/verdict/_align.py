"""Alignment of two ranks' sequences of calls: where did one of them skip a call?

Calls pair physically by position. The alignment asks which pairing the *program* meant: two calls
with the same key (operation, stack, loop values) are the same call; calls of one operation from
different lines may be two branches of one ``if`` (legal, a small cost); loop values that contradict
each other speak against a pair, those that agree speak for it. A call with no counterpart is a
gap. The cheapest explanation wins, and positions win a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.record import Call
from harness.verdict._signature import UNLIKE, alike
from harness.verdict._sites import Key, key, lines, loop_evidence

GAP = 2.0
BRANCH = 1.5
BRANCH_IN_STEP = 0.5
OTHER_PASS = 2.5
AGAINST = 3.0
OTHER_OP = 1.9
OTHER_OP_IN_STEP = 1.5
OTHER_ARGUMENT = 0.2

WINDOW = 256
BAND = 40


@dataclass(frozen=True, slots=True)
class Alignment:
    """``pairs`` of places (i in a, j in b); calls of ``a`` and of ``b`` without a counterpart.

    A call that a rank had not come to yet is in none of them.
    """

    pairs: tuple[tuple[int, int], ...]
    only_a: tuple[int, ...]
    only_b: tuple[int, ...]
    cost: float


class Keys:
    """Numbers keys, and remembers the cost of each pair of them.

    ``idle`` names loop variables that say nothing about which call is which.
    """

    def __init__(self, idle: frozenset[str] = frozenset()) -> None:
        self.idle = idle
        self._numbers: dict[Key, int] = {}
        self._cost: dict[tuple[int, int], float] = {}

    def number(self, call: Call) -> int:
        """A small number that stands for the call's key."""
        return self._numbers.setdefault(key(call, self.idle), len(self._numbers))

    def cost(self, a: Call, b: Call, ka: int, kb: int) -> float:
        """What it costs to hold the two for one call of the program."""
        fits = alike(a, b) != UNLIKE
        if ka == kb:
            return 0.0 if fits else OTHER_ARGUMENT
        if not fits:
            return self._distance(a, b) + OTHER_ARGUMENT
        known = self._cost.get((ka, kb))
        if known is None:
            known = self._cost[ka, kb] = self._distance(a, b)
        return known

    def _distance(self, a: Call, b: Call) -> float:
        evidence = loop_evidence(a.stack, b.stack)
        differ = [name for name, _, _ in evidence.differ if name not in self.idle]
        if a.op != b.op:
            if differ:
                return AGAINST
            return OTHER_OP_IN_STEP if evidence.agree else OTHER_OP
        if a.label != b.label and (a.label is not None or b.label is not None):
            return OTHER_PASS
        if lines(a.stack) == lines(b.stack):
            return OTHER_PASS if differ else 0.0
        if differ:
            return AGAINST
        return BRANCH_IN_STEP if evidence.agree else BRANCH


def idle_names(sequences: Iterable[Sequence[Call]]) -> frozenset[str]:
    """Loop variables of which no two ranks have a value in common: a path, a rank, a shard."""
    seen: dict[str, set[str]] = {}
    shared: set[str] = set()
    for calls in sequences:
        for name, values in _values(calls).items():
            before = seen.setdefault(name, set())
            if before & values:
                shared.add(name)
            before |= values
    return frozenset(seen) - shared


def _values(calls: Sequence[Call]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for call in calls:
        for frame in call.stack:
            for name, value in frame.loop:
                found.setdefault(name, set()).add(value)
    return found


def align(
    a: Sequence[Call], b: Sequence[Call], *, a_over: bool, b_over: bool, keys: Keys
) -> Alignment:
    """Align two sequences that start at the same position.

    ``a_over`` and ``b_over`` say that the rank makes no more calls, so that a call which it lacks
    at the end is a gap; a rank that is still on its way simply has not come that far.
    """
    a, b = a[:WINDOW], b[:WINDOW]
    ka, kb = [keys.number(c) for c in a], [keys.number(c) for c in b]

    def cost(i: int, j: int) -> float:
        return keys.cost(a[i], b[j], ka[i], kb[j])

    if all(cost(i, i) == 0.0 for i in range(min(len(a), len(b)))):
        return _positional(len(a), len(b), a_over, b_over)
    # What is left of the other sequence costs nothing if this rank may yet come to it.
    ends = GAP if b_over else 0.0, GAP if a_over else 0.0
    return cheapest(len(a), len(b), ends, cost)


def _positional(n: int, m: int, a_over: bool, b_over: bool) -> Alignment:
    shared = min(n, m)
    only_a = tuple(range(shared, n)) if b_over else ()
    only_b = tuple(range(shared, m)) if a_over else ()
    pairs = tuple((i, i) for i in range(shared))
    return Alignment(pairs, only_a, only_b, GAP * (len(only_a) + len(only_b)))


def cheapest(
    n: int, m: int, ends: tuple[float, float], cost: Callable[[int, int], float]
) -> Alignment:
    """The cheapest alignment of ``n`` things with ``m``, where a pair costs ``cost(i, j)``.

    ``ends`` is what each thing costs that is left over at the end, of the first sequence and of the
    second; with 0 it is no gap.
    """
    far = float("inf")
    band = BAND + abs(n - m)
    best = [[far] * (m + 1) for _ in range(n + 1)]
    for i in range(n, -1, -1):
        row = best[i]
        below = best[i + 1] if i < n else None
        for j in range(min(m, i + band), max(-1, i - band - 1), -1):
            if i == n and j == m:
                row[j] = 0.0
            elif i == n:
                row[j] = ends[1] * (m - j)
            elif j == m:
                row[j] = ends[0] * (n - i)
            else:
                assert below is not None
                row[j] = min(below[j + 1] + cost(i, j), below[j] + GAP, row[j + 1] + GAP)
    return _walk(n, m, ends, cost, best)


def _walk(
    n: int,
    m: int,
    ends: tuple[float, float],
    cost: Callable[[int, int], float],
    best: list[list[float]],
) -> Alignment:
    pairs: list[tuple[int, int]] = []
    only_a: list[int] = []
    only_b: list[int] = []
    i = j = 0
    while i < n and j < m:
        if best[i][j] == best[i + 1][j + 1] + cost(i, j):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j] + GAP:
            only_a.append(i)
            i += 1
        else:
            only_b.append(j)
            j += 1
    if ends[0]:
        only_a.extend(range(i, n))
    if ends[1]:
        only_b.extend(range(j, m))
    return Alignment(tuple(pairs), tuple(only_a), tuple(only_b), best[0][0])
