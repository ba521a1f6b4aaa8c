"""Values that user code has checked: what ``harness.expect``, ``expect_same``, ``unchanged`` do.

They run in a rank and only write records; nothing is exchanged between ranks, so a check can
neither hang nor change what it watches. Outside a rank they check what can be checked there.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from harness.record._stacks import user_stack

if TYPE_CHECKING:
    from harness.record._recorder import Recorder

_recorder: Recorder | None = None
_kept: list[tuple[str, Any, list[tuple[torch.Tensor, torch.Tensor, int]]]] = []

LONGEST_TEXT = 200


def attach(recorder: Recorder) -> None:
    """Values checked in this process go to this recorder."""
    global _recorder
    _recorder = recorder


def expect(name: str, value: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """``value`` has to equal ``expected``, within ``atol + rtol × |expected|``; NaN equals NaN.

    The finding of a value that does not is ``value_mismatch``, with the rank, the line and both.
    """
    wrong = _difference(value, expected, rtol, atol)
    _send("expect", name, "", "", _text(value), wrong)


def expect_same(name: str, value: Any, *, over: str = "dp-cp") -> None:
    """All ranks of the grid's group ``over`` have to have the same ``value`` here, to the bit.

    Ranks are compared at the first, second … time that they come to a check of this name. The
    finding where they differ is ``value_mismatch``, with each rank's value.
    """
    digest = hashlib.sha256(repr([_exact(leaf) for leaf in _leaves(value)]).encode()).hexdigest()
    _send("expect_same", name, over, digest, _text(value), "")


def unchanged(name: str, tensors: Any) -> None:
    """What ``tensors`` hold now, they have to hold when the rank's function ends.

    For a value that is logged, or handed to somebody, and must not be written to any more. The
    finding where it was is ``mutated_value``.
    """
    leaves = [leaf for leaf in _leaves(tensors) if isinstance(leaf, torch.Tensor)]
    if not leaves:
        raise TypeError(f"unchanged({name!r}): there is no tensor in a {type(tensors).__name__}")
    stack, _, _ = user_stack(sys._getframe(1))
    _kept.append((name, stack, [(t, t.detach().clone(), t._version) for t in leaves]))


def compare_kept() -> None:
    """The rank's function has returned: look at what had to stay unchanged."""
    kept, _kept[:] = list(_kept), []
    for name, stack, tensors in kept:
        changed = [
            f"{_text(before)} has become {_text(now.detach())}"
            for now, before, _ in tensors
            if _difference(now.detach(), before, 0.0, 0.0)
        ]
        _send("unchanged", name, "", "", "", "; ".join(changed)[: 3 * LONGEST_TEXT], stack)


def forget_kept() -> None:
    """A new function begins."""
    _kept.clear()


def _send(
    kind: str, name: str, over: str, digest: str, text: str, wrong: str, stack: Any = None
) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{kind}: the name is a text, not {name!r}")
    recorder = _recorder
    if recorder is None:
        if wrong:
            raise AssertionError(f"{name}: {wrong}")
        return
    if stack is None:
        stack, _, _ = user_stack(sys._getframe(2))
    recorder.channel.send_with_stack(
        stack,
        "Value",
        recorder.next_call(),
        recorder.threads.number(),
        kind,
        name,
        over,
        digest,
        text,
        wrong,
        time.monotonic(),
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _exact(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        plain = leaf.detach().resolve_conj().resolve_neg().contiguous().cpu()
        # Not by way of numpy, which torch does not bring along.
        data = ctypes.string_at(plain.data_ptr(), plain.nbytes) if plain.numel() else b""
        return str(leaf.dtype), tuple(leaf.shape), hashlib.sha256(data).hexdigest()
    return repr(leaf)


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        detached = value.detach()
        value = detached.item() if detached.numel() == 1 else detached.flatten()[:16].tolist()
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list) and all(isinstance(v, float) for v in value):
        return "[" + ", ".join(f"{v:.7g}" for v in value) + "]"
    return repr(value)[:LONGEST_TEXT]


def _difference(value: Any, expected: Any, rtol: float, atol: float) -> str:
    """How they differ, in words; empty where they do not."""
    got, want = list(_leaves(value)), list(_leaves(expected))
    if len(got) != len(want):
        return f"{len(got)} values where {len(want)} are expected"
    for a, b in zip(got, want, strict=True):
        said = _leaf_difference(a, b, rtol, atol)
        if said:
            return said
    return ""


def _leaf_difference(a: Any, b: Any, rtol: float, atol: float) -> str:
    try:
        left = torch.as_tensor(a).detach()
        right = torch.as_tensor(b).detach()
    except (TypeError, RuntimeError, ValueError):
        return "" if a == b else f"{_text(a)} where {_text(b)} is expected"
    if left.shape != right.shape:
        return f"shape {list(left.shape)} where {list(right.shape)} is expected"
    wide: Callable[[torch.Tensor], torch.Tensor] = (
        (lambda t: t.to(torch.complex128)) if left.is_complex() else (lambda t: t.double())
    )
    if torch.allclose(wide(left), wide(right), rtol=rtol, atol=atol, equal_nan=True):
        return ""
    return f"{_text(left)} where {_text(right)} is expected"
