"""The rollout that an adapter gets on each rank. Runs in ranks: torch, no pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.suites._placement import held_positions

if TYPE_CHECKING:
    import torch

Rollout = dict[str, Any]
"""One rank's share of a rollout; see ``kl_aliasing`` for its keys."""


@dataclass(frozen=True)
class RolloutSample:
    """One sampled sequence, whole; per-token fields have one entry for each response token."""

    total: int
    response: int
    reward: float
    mask: tuple[int, ...]
    log_probs: tuple[float, ...]
    ref_log_probs: tuple[float, ...]
    values: tuple[float, ...]


def local_rollout(
    samples: Sequence[RolloutSample], cp: int, cp_rank: int, mask_dtype: str = "int64"
) -> Rollout:
    """Build the rollout of one rank from the samples of its data-parallel rank."""
    import torch

    held = [held_positions(s.total, s.response, cp, cp_rank) for s in samples]

    def pick(field: str) -> list[torch.Tensor]:
        return [
            torch.tensor([getattr(s, field)[p] for p in positions], dtype=torch.float32)
            for s, positions in zip(samples, held, strict=True)
        ]

    return {
        "total_lengths": [s.total for s in samples],
        "response_lengths": [s.response for s in samples],
        "rewards": [s.reward for s in samples],
        "loss_masks": [torch.tensor(s.mask, dtype=getattr(torch, mask_dtype)) for s in samples],
        "log_probs": pick("log_probs"),
        "ref_log_probs": pick("ref_log_probs"),
        "values": pick("values"),
    }


def tensors_of(value: Any, path: str) -> list[tuple[str, torch.Tensor]]:
    """Return every tensor in a (nested) list, tuple or dict with the path that leads to it."""
    import torch

    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, Mapping):
        return [t for key, v in value.items() for t in tensors_of(v, f"{path}[{key!r}]")]
    if isinstance(value, list | tuple):
        return [t for i, v in enumerate(value) for t in tensors_of(v, f"{path}[{i}]")]
    return []


class Snapshot:
    """What some tensors and lists held at one moment, to be compared with what they hold later."""

    def __init__(self, value: Any, path: str) -> None:
        self.value = value
        self._path = path
        self._tensors = [
            (where, t, t.detach().clone(), t._version) for where, t in tensors_of(value, path)
        ]
        self._plain = _plain(value)

    def changes(self, now: Any) -> list[str]:
        """Say what was written since: values, or only the version counter.

        ``now`` is what stands there today. A tensor that was exchanged for an equal one is not
        mentioned; one that was written and holds its old numbers again is.
        """
        tensors = tensors_of(now, self._path)
        if len(tensors) != len(self._tensors):
            return [f"{self._path} had {len(self._tensors)} tensors and has {len(tensors)}"]
        said = []
        for (where, tensor), (_, then, before, version) in zip(tensors, self._tensors, strict=True):
            written = f" (version {version} → {tensor._version})" if tensor is then else ""
            if not _same(tensor, before):
                how = "" if tensor is then else ", another tensor"
                said.append(f"{where} was {show(before)} and is {show(tensor)}{how}{written}")
            elif tensor is then and tensor._version != version:
                said.append(
                    f"{where} was written in place and holds the same values again{written}"
                )
        if not said and _plain(now) != self._plain:
            said.append(f"{self._path} was {self._plain!r} and is {_plain(now)!r}")
        return said


def input_changes(
    before: Mapping[str, Snapshot], rollout: Mapping[str, Any], allowed: Sequence[str] = ()
) -> list[str]:
    """Say which of the watched entries of a rollout were written, replaced or taken out.

    New entries (advantages, kl) are what such a function is for and are not mentioned.
    """
    said = []
    for key, snapshot in before.items():
        if key in allowed:
            continue
        if key not in rollout:
            said.append(f"rollout[{key!r}] was taken out")
            continue
        changes = snapshot.changes(rollout[key])
        if not changes and rollout[key] is not snapshot.value:
            changes = [f"rollout[{key!r}] was replaced by another object"]
        said += changes
    return said


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN."""
    import torch

    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_floating_point():
        return torch.allclose(a.detach(), b, rtol=0.0, atol=0.0, equal_nan=True)
    return torch.equal(a, b)


def _plain(value: Any) -> Any:
    """Return the value with each tensor replaced by a mark, so that the rest can be compared."""
    import torch

    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def show(tensor: torch.Tensor) -> str:
    """Print the first few entries of a tensor."""
    flat = tensor.detach().reshape(-1)[:6].tolist()
    dots = ", …" if tensor.numel() > 6 else ""
    return "[" + ", ".join(f"{float(x):.6g}" for x in flat) + dots + "]"
