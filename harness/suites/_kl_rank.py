"""What the KL suite runs on each rank: calls the function under test and probes what it returned.

Runs in ranks: torch, no pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.suites._placement import held_positions
from harness.suites._rollout import (
    Rollout,
    RolloutSample,
    Snapshot,
    input_changes,
    local_rollout,
    show,
    tensors_of,
)


@dataclass(frozen=True)
class Config:
    """The settings under which the function under test is called."""

    estimator: str
    kl_type: str
    kl_coef: float
    gamma: float = 1.0
    lambd: float = 1.0

    @property
    def label(self) -> str:
        """The setting in a few words."""
        return f"{self.estimator}, {self.kl_type}, kl_coef={self.kl_coef:g}"


AdvantageFunction = Callable[[Rollout, Config], "Mapping[str, Any] | None"]


@dataclass(frozen=True)
class Fields:
    """Which entries of the result are logged, which are returned, and what is declared of them."""

    logged: tuple[str, ...]
    returned: tuple[str, ...]
    mutates: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class KlOutcome:
    """What one rank saw in one call."""

    rank: int
    dp: int
    cp: int
    config: Config
    held: list[tuple[int, ...]]
    """For each sample of this rank the response positions that it holds."""
    samples: list[int] = field(default_factory=list)
    logged: dict[str, list[list[float]]] = field(default_factory=dict)
    """The logged fields as they are after the call."""
    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Writes to a logged field between its being logged and the end of the call."""
    reached: tuple[str, ...] = ()
    """Logged fields that a later write to a returned tensor reaches."""
    mutated: tuple[str, ...] = ()
    """The caller's inputs that were written."""

    @property
    def label(self) -> str:
        """The rank, its coordinates and the setting."""
        return f"rank {self.rank} (dp {self.dp}, cp {self.cp}), {self.config.label}"


class _LoggingRollout(dict[str, Any]):
    """A rollout that remembers what a logged field held when it was put in."""

    def __init__(self, entries: Rollout, logged: Sequence[str]) -> None:
        super().__init__(entries)
        self._logged = logged
        self.at_logging: dict[str, Snapshot] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        # Only the first time counts: what replaces a logged field is not what was to be logged.
        if key in self._logged and key not in self.at_logging:
            self.at_logging[key] = Snapshot(value, key)
        super().__setitem__(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> _LoggingRollout:  # type: ignore[override,misc]
        self.update(other)
        return self


def call_configs(
    rank: Any,
    fn: AdvantageFunction,
    samples: Sequence[RolloutSample],
    dp: int,
    cp: int,
    configs: Sequence[Config],
    fields: Fields,
) -> list[KlOutcome]:
    """Call the function once for each setting, each time on a fresh rollout."""
    chosen = list(range(rank.dp, len(samples), dp))
    mine = [samples[i] for i in chosen]
    held = [held_positions(s.total, s.response, cp, rank.cp) for s in mine]
    return [
        _call(rank, fn, local_rollout(mine, cp, rank.cp), config, fields, chosen, held)
        for config in configs
    ]


def _call(
    rank: Any,
    fn: AdvantageFunction,
    entries: Rollout,
    config: Config,
    fields: Fields,
    chosen: list[int],
    held: list[tuple[int, ...]],
) -> KlOutcome:
    rollout = _LoggingRollout(entries, fields.logged)
    inputs = {key: Snapshot(value, f"rollout[{key!r}]") for key, value in entries.items()}
    answer = fn(rollout, config)
    # A function may update the rollout, return a new dict, or both.
    result: dict[str, Any] = {**rollout, **(answer or {})}
    missing = tuple(f for f in (*fields.logged, *fields.returned) if f not in result)
    changed: list[str] = []
    for name, snapshot in rollout.at_logging.items():
        if name in result:
            changed += snapshot.changes(result[name])
    logged = {
        name: [t.detach().double().reshape(-1).tolist() for _, t in tensors_of(result[name], name)]
        for name in fields.logged
        if name in result
    }
    mutated = input_changes(inputs, rollout, fields.mutates)
    return KlOutcome(
        rank=int(rank),
        dp=rank.dp,
        cp=rank.cp,
        config=config,
        held=held,
        samples=chosen,
        logged=logged,
        missing=missing,
        changed=tuple(changed),
        mutated=tuple(mutated),
        reached=tuple(_writes_that_reach(result, fields)),  # last: it writes
    )


def _writes_that_reach(result: Mapping[str, Any], fields: Fields) -> list[str]:
    """Write to each returned tensor, see which logged one changes, and write back."""
    import torch

    said = []
    declared = {frozenset(pair) for pair in fields.shared}
    with torch.no_grad():
        for name in fields.returned:
            others = [
                f for f in fields.logged if f != name and frozenset((f, name)) not in declared
            ]
            for where, tensor in tensors_of(result.get(name), name):
                watched = [pair for f in others for pair in tensors_of(result.get(f), f)]
                before = [t.detach().clone() for _, t in watched]
                own = tensor.detach().clone()
                target = _writable(tensor)
                target.add_(1)
                said += [
                    f"after an in-place write to {where}, {path} went from {show(old)} to {show(t)}"
                    for (path, t), old in zip(watched, before, strict=True)
                    if not torch.equal(t, old)
                ]
                if target is tensor.data or target.shape == own.shape:
                    target.copy_(own)
                else:
                    target.sub_(1)
    return said


def _writable(tensor: Any) -> Any:
    """Return the tensor's data, or one element of it where elements share memory (expand)."""
    import torch

    data = tensor.detach()
    if any(
        stride == 0 and size > 1 for stride, size in zip(data.stride(), data.shape, strict=True)
    ):
        return torch.as_strided(data, (1,), (1,), data.storage_offset())
    return data
