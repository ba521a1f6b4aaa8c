"""Which arguments of a collective have to agree between ranks, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from harness.record import Call, TensorInfo
from harness.verdict._text import payload, tensors_text

ALIKE, SUSPECT, UNLIKE = 0, 1, 2

SAME_SHAPE = frozenset({"all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"})
SAME_NUMEL = frozenset({"all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor"})
PAIRWISE = frozenset({"all_to_all", "all_to_all_single"})
OBJECT_CALLS = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Calls of one position that do not go together.

    ``detail`` is ``"op"`` or the argument's name. ``values`` is what each rank gave, as text.
    """

    detail: str
    values: dict[int, str]
    level: str = "error"
    pairs: tuple[str, ...] = ()
    guilty: tuple[int, ...] = ()


def base_op(op: str) -> str:
    """The operation whose rules hold: coalesced forms obey those of the single one."""
    return op.removesuffix("_coalesced")


def alike(a: Call, b: Call) -> int:
    """Whether two calls of one position go together: ALIKE, SUSPECT (shape only) or UNLIKE."""
    if a.op != b.op or a.reduce_op != b.reduce_op or a.root != b.root:
        return UNLIKE
    if a.op == "barrier":
        return ALIKE
    op = base_op(a.op)
    if op in PAIRWISE:
        # Sizes may differ by contract; the pairs are gone through by `compare`.
        return ALIKE if _dtypes(a) == _dtypes(b) else UNLIKE
    if op not in SAME_SHAPE and op not in SAME_NUMEL:
        return ALIKE
    ours, theirs = payload(a), payload(b)
    if len(ours) != len(theirs):
        return UNLIKE
    level = ALIKE
    for x, y in zip(ours, theirs, strict=True):
        if x.dtype != y.dtype:
            return UNLIKE
        if x.shape != y.shape:
            if prod(x.shape) != prod(y.shape):
                return UNLIKE
            level = SUSPECT
    return level


def compare(calls: Mapping[int, Call], members: Sequence[int]) -> Mismatch | None:
    """The first way in which the calls that members made at one position disagree."""
    ranks = sorted(calls)
    if len(ranks) < 2:
        return None
    named = {rank: _named_op(calls[rank]) for rank in ranks}
    if len({calls[rank].op for rank in ranks}) > 1:
        return _by_value("op", named)
    op = base_op(calls[ranks[0]].op)
    found = (
        _differ("reduce_op", {r: calls[r].reduce_op or "none" for r in ranks})
        or _differ("root", {r: str(calls[r].root) for r in ranks})
        or _tensors(op, {r: calls[r] for r in ranks}, members)
    )
    if found is not None and found.level == "error" and len(set(named.values())) > 1:
        # all_gather_object is an all_gather underneath: say what the user called.
        return _by_value("op", named)
    return found


def _tensors(op: str, calls: Mapping[int, Call], members: Sequence[int]) -> Mismatch | None:
    if op in PAIRWISE:
        found = _differ("dtype", {r: "/".join(_dtypes(c)) for r, c in calls.items()})
        if found is None and op == "all_to_all_single":
            return _single_pairs(calls, members)
        return found or _list_pairs(calls, members)
    if op not in SAME_SHAPE and op not in SAME_NUMEL:
        return None
    found = _differ("dtype", {r: _dtype_text(c) for r, c in calls.items()})
    if found is not None:
        return found
    shapes = {r: tensors_text(payload(c)) for r, c in calls.items()}
    if len(set(shapes.values())) == 1 and len({len(payload(c)) for c in calls.values()}) == 1:
        return None
    numels = {tuple(prod(t.shape) for t in payload(c)) for c in calls.values()}
    return _by_value("shape", shapes, "warning" if len(numels) == 1 else "error")


def _single_pairs(calls: Mapping[int, Call], members: Sequence[int]) -> Mismatch | None:
    """all_to_all_single: what i sends to j must be what j expects from i."""
    rows = {r: _row(c) for r, c in calls.items()}
    if len({row for row in rows.values() if row is not None}) > 1:
        return _by_value("shape", {r: tensors_text(payload(c)) for r, c in calls.items()})
    given = any(bool(c.input_splits or c.output_splits) for c in calls.values())
    n = len(members)
    # Split lists count rows; without any, elements are told, as the shapes are.
    sent = {r: _splits(c.input_splits, c.inputs, n, given) for r, c in calls.items()}
    expected = {r: _splits(c.output_splits, c.outputs, n, given) for r, c in calls.items()}
    pairs, guilty = _disagreeing(calls, members, sent, expected)
    if not pairs:
        return None
    if given:
        values = {r: _splits_text(sent[r], expected[r]) for r in sorted(calls)}
    else:
        values = {r: tensors_text(payload(calls[r])) for r in sorted(calls)}
    detail = "splits" if given else "shape"
    return Mismatch(detail, values, pairs=pairs, guilty=guilty)


def _list_pairs(calls: Mapping[int, Call], members: Sequence[int]) -> Mismatch | None:
    """all_to_all with lists: the tensor that i sends to j must fit the one j receives into."""
    sent = {r: [prod(t.shape) for t in c.inputs] for r, c in calls.items()}
    expected = {r: [prod(t.shape) for t in c.outputs] for r, c in calls.items()}
    pairs, guilty = _disagreeing(calls, members, sent, expected)
    if not pairs:
        return None
    values = {r: _splits_text(sent[r], expected[r]) for r in sorted(calls)}
    return Mismatch("shape", values, pairs=pairs, guilty=guilty)


def _disagreeing(
    calls: Mapping[int, Call],
    members: Sequence[int],
    sent: Mapping[int, Sequence[int] | None],
    expected: Mapping[int, Sequence[int] | None],
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    pairs: list[str] = []
    guilty: set[int] = set()
    local = {rank: place for place, rank in enumerate(members)}
    for src in sorted(calls):
        for dst in sorted(calls):
            out, into = sent[src], expected[dst]
            if out is None or into is None:
                continue
            i, j = local[src], local[dst]
            if j < len(out) and i < len(into) and out[j] != into[i]:
                pairs.append(f"rank {src} sends {out[j]} to rank {dst}, which expects {into[i]}")
                guilty.update((src, dst))
    return tuple(pairs), tuple(sorted(guilty))


def _row(call: Call) -> tuple[int, ...] | None:
    tensors = call.inputs or call.outputs
    return tensors[0].shape[1:] if tensors and call.input_splits else None


def _splits(
    given: tuple[int, ...] | None, tensors: Sequence[TensorInfo], n: int, rows: bool
) -> Sequence[int] | None:
    if given:
        return given
    if not tensors:
        return None
    shape = tensors[0].shape
    return [prod(shape[:1] if rows else shape) // n] * n


def _splits_text(sent: Sequence[int] | None, expected: Sequence[int] | None) -> str:
    return f"sends {_list_text(sent)}, expects {_list_text(expected)}"


def _list_text(values: Sequence[int] | None) -> str:
    return "nothing" if values is None else str(list(values))


def _dtypes(call: Call) -> tuple[str, ...]:
    return tuple(sorted({t.dtype for t in (*call.inputs, *call.outputs)}))


def _dtype_text(call: Call) -> str:
    dtypes = [t.dtype for t in payload(call)]
    return dtypes[0] if len(set(dtypes)) == 1 else "/".join(dtypes)


def _named_op(call: Call) -> str:
    source = call.stack[0].source if call.stack else ""
    for name in OBJECT_CALLS:
        if f"{name}(" in source.replace(" ", "") and f"_{name}(" not in source:
            return name
    return call.op


def _differ(detail: str, values: dict[int, str]) -> Mismatch | None:
    return _by_value(detail, values) if len(set(values.values())) > 1 else None


def _by_value(detail: str, values: dict[int, str], level: str = "error") -> Mismatch:
    return Mismatch(detail, values, level)
