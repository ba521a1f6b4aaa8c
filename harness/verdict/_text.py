"""How ranks, calls and sites are written in a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from harness.record import Call, Creation, Stack, TensorInfo


def numbers(ranks: Iterable[int]) -> str:
    """Ranks as a short list: ``0, 2, 3`` or, from four in a row, ``0-62``."""
    parts: list[str] = []
    ordered = sorted(set(ranks))
    for _, run in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0]):
        block = [rank for _, rank in run]
        if len(block) > 3:
            parts.append(f"{block[0]}-{block[-1]}")
        else:
            parts.extend(map(str, block))
    return ", ".join(parts)


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 1`` or ``ranks 0, 2``."""
    members = sorted(set(ranks))
    return f"rank {members[0]}" if len(members) == 1 else f"ranks {numbers(members)}"


def verb(ranks: Sequence[int] | Iterable[int], one: str, many: str) -> str:
    """The form of a verb that fits the number of ranks."""
    return one if len(set(ranks)) == 1 else many


def site(stack: Stack) -> str:
    """``loss.py:41``, the call site without its directory; ``an unknown line`` when unseen."""
    if not stack:
        return "an unknown line"
    return f"{stack[0].file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{stack[0].line}"


def tensor_text(tensor: TensorInfo) -> str:
    """``float32[3]``, ``float32[2, 3]``, ``float32[]`` for a scalar."""
    return f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"


def tensors_text(tensors: Sequence[TensorInfo]) -> str:
    """One tensor, or ``3 x float32[4]``, or the first three of a mixed list."""
    if not tensors:
        return ""
    texts = [tensor_text(tensor) for tensor in tensors]
    if len(texts) == 1:
        return texts[0]
    if len(set(texts)) == 1:
        return f"{len(texts)} x {texts[0]}"
    more = ", ..." if len(texts) > 3 else ""
    return f"[{', '.join(texts[:3])}{more}]"


def payload(call: Call) -> tuple[TensorInfo, ...]:
    """The tensors by which a call is known: what it sends, or else what it receives into."""
    if call.op in ("scatter", "recv"):
        return call.outputs or call.inputs
    return call.inputs or call.outputs


def call_text(call: Call) -> str:
    """A call as a user would write it: ``all_reduce(SUM, float32[3])``."""
    parts: list[str] = []
    if call.reduce_op is not None:
        parts.append(call.reduce_op)
    if call.root is not None:
        parts.append(f"{'src' if call.op in ('broadcast', 'scatter') else 'dst'}={call.root}")
    if call.op == "send":
        parts.append(f"dst={call.peer}")
    elif call.op == "recv":
        parts.append("src=any" if call.peer is None else f"src={call.peer}")
    tensors = tensors_text(payload(call))
    if tensors:
        parts.append(tensors)
    if call.input_splits:
        parts.append(f"input_splits={list(call.input_splits)}")
    if call.output_splits:
        parts.append(f"output_splits={list(call.output_splits)}")
    if call.tag:
        parts.append(f"tag={call.tag}")
    return f"{call.op}({', '.join(parts)})"


def creation_text(creation: Creation) -> str:
    """A group creation as a user would write it: ``new_group([0, 2])``."""
    return f"new_group({list(creation.ranks)})"


def loops_text(stack: Stack) -> str:
    """The loop values around a call, outermost first: ``step=3, name=w1``."""
    return ", ".join(f"{n}={v}" for frame in reversed(stack) for n, v in frame.loop)


def plain(message: str, limit: int = 200) -> str:
    """The first line of an error message, cut to a bearable length."""
    lines = message.strip().splitlines()
    line = lines[0].strip() if lines else ""
    return line if len(line) <= limit else line[: limit - 3] + "..."
