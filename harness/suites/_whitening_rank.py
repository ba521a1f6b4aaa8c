"""What the whitening suite runs on each rank: calls the function under test, judges nothing.

Runs in ranks: torch, no pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness.suites._rollout import RolloutSample, Snapshot, input_changes, local_rollout

if TYPE_CHECKING:
    import torch

    from harness.suites._batch import Batch


@dataclass(frozen=True)
class Adapter:
    """A function under test and the form in which it takes and returns its tokens."""

    fn: Callable[..., Any]
    form: Literal["tokens", "samples", "rollout"] = "tokens"

    @property
    def name(self) -> str:
        """What to call the function in a message."""
        return str(getattr(self.fn, "__qualname__", None) or repr(self.fn)).split(".<locals>.")[-1]


@dataclass(frozen=True)
class Outcome:
    """What one rank did with one batch."""

    rank: int
    dp: int
    cp: int
    tp: int
    outputs: dict[int, list[float]] = field(default_factory=dict)
    """For each sample of this rank, one value for each position that the rank holds."""
    raised: str | None = None
    malformed: str | None = None
    mutated: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The rank and its coordinates."""
        tp = f", tp {self.tp}" if self.tp else ""
        return f"rank {self.rank} (dp {self.dp}, cp {self.cp}{tp})"


def whiten_batches(
    rank: Any, adapter: Adapter, batches: Sequence[Batch], cp: int, group: str, catch: bool
) -> list[Outcome]:
    """Whiten each batch on this rank; with ``catch`` an exception is an outcome, not an end."""
    return [_whiten(rank, adapter, batch, cp, group, catch) for batch in batches]


def _whiten(rank: Any, adapter: Adapter, batch: Batch, cp: int, group: str, catch: bool) -> Outcome:
    import torch

    inputs: dict[str, Any]
    who: dict[str, Any] = {
        "rank": int(rank),
        "dp": rank.dp,
        "cp": rank.cp,
        "tp": getattr(rank, "tp", 0),
    }
    local = batch.local(cp, rank.dp, rank.cp)
    counts = [len(positions) for positions in local.values()]
    arguments: tuple[Any, ...]
    if adapter.form == "rollout":
        inputs = _rollout(batch, local, cp, rank.cp)
        arguments = (rank, inputs)
    else:
        values = _split(batch, local, "values", batch.dtype)
        mask = _split(batch, local, "mask", batch.mask_dtype)
        inputs = {"values": values, "mask": mask}
        if adapter.form == "tokens":
            inputs = {"values": _join(values, batch.dtype), "mask": _join(mask, batch.mask_dtype)}
        arguments = (inputs["values"], inputs["mask"], rank.group(group))
    before = {
        key: Snapshot(value, f"rollout[{key!r}]" if adapter.form == "rollout" else key)
        for key, value in inputs.items()
    }
    try:
        result = adapter.fn(*arguments)
    except Exception as error:
        if not catch:
            raise
        return Outcome(**who, raised=f"{type(error).__name__}: {error}")
    mutated = tuple(input_changes(before, inputs))
    flat: list[torch.Tensor]
    if adapter.form == "tokens":
        if not isinstance(result, torch.Tensor) or result.shape != (sum(counts),):
            return Outcome(
                **who, malformed=_shape_text(result, f"a tensor of shape ({sum(counts)},)")
            )
        flat = list(torch.split(result.detach(), counts)) if counts else []
    else:
        right = isinstance(result, list | tuple) and len(result) == len(counts)
        if not right or any(
            not isinstance(t, torch.Tensor) or t.shape != (n,)
            for t, n in zip(result, counts, strict=True)
        ):
            return Outcome(
                **who, malformed=_shape_text(result, f"tensors of lengths {counts}, one a sample")
            )
        flat = [t.detach() for t in result]
    outputs = {i: t.double().tolist() for i, t in zip(local, flat, strict=True)}
    return Outcome(**who, outputs=outputs, mutated=mutated)


def _split(
    batch: Batch, local: dict[int, tuple[int, ...]], what: str, dtype: str
) -> list[torch.Tensor]:
    import torch

    return [
        torch.tensor(
            [getattr(batch.samples[i], what)[p] for p in positions], dtype=getattr(torch, dtype)
        )
        for i, positions in local.items()
    ]


def _join(parts: list[torch.Tensor], dtype: str) -> torch.Tensor:
    import torch

    return torch.cat(parts) if parts else torch.zeros(0, dtype=getattr(torch, dtype))


def _rollout(
    batch: Batch, local: dict[int, tuple[int, ...]], cp: int, cp_rank: int
) -> dict[str, Any]:
    samples = [batch.samples[i] for i in local]
    nothing = [(0.0,) * s.response for s in samples]
    return local_rollout(
        [
            RolloutSample(s.total, s.response, s.values[0], s.mask, zeros, zeros, zeros)
            for s, zeros in zip(samples, nothing, strict=True)
        ],
        cp,
        cp_rank,
        batch.mask_dtype,
    )


def _shape_text(result: Any, wanted: str) -> str:
    import torch

    if isinstance(result, torch.Tensor):
        got = f"a tensor of shape {tuple(result.shape)}"
    elif isinstance(result, list | tuple):
        lengths = [
            tuple(t.shape) if isinstance(t, torch.Tensor) else type(t).__name__ for t in result
        ]
        got = f"a {type(result).__name__} of {lengths}"
    else:
        got = f"{type(result).__name__}"
    return f"expected {wanted} back, got {got}"
