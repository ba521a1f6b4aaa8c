"""The batches that the whitening laws whiten: samples, their masks, and who holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.suites._numbers import rounded
from harness.suites._placement import held_positions

STANDARD = ((64, 48), (100, 90), (40, 12), (256, 16), (72, 30), (90, 84), (50, 20), (110, 96))
"""(total, response) lengths under which every rank of every world up to cp=4 holds tokens."""

REWARDS = (1.5, -0.5, -1.0, 2.0, 0.25, -1.75, 0.75, -0.25)


@dataclass(frozen=True)
class Sample:
    """One sequence: its lengths, and one value and one mask entry for each response token."""

    total: int
    response: int
    values: tuple[float, ...]
    mask: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """All samples of a world and the data-parallel rank that each belongs to."""

    samples: tuple[Sample, ...]
    owners: tuple[int, ...]
    dtype: str = "float32"
    mask_dtype: str = "float32"

    @cached_property
    def values(self) -> list[list[float]]:
        """The values as the function sees them, rounded to its input dtype."""
        return [[rounded(v, self.dtype) for v in sample.values] for sample in self.samples]

    def local(self, cp: int, dp_rank: int, cp_rank: int) -> dict[int, tuple[int, ...]]:
        """For each sample of a data-parallel rank, the positions that one of its ranks holds."""
        return {
            i: held_positions(sample.total, sample.response, cp, cp_rank)
            for i, sample in enumerate(self.samples)
            if self.owners[i] == dp_rank
        }

    def with_values(self, value: Callable[[int, int, float], float]) -> Batch:
        """Replace each value by ``value(sample, position, old)``."""
        return replace(
            self,
            samples=tuple(
                replace(s, values=tuple(value(i, j, v) for j, v in enumerate(s.values)))
                for i, s in enumerate(self.samples)
            ),
        )

    def with_mask(self, keep: Callable[[int, int], bool]) -> Batch:
        """Replace each mask entry by ``keep(sample, position)``."""
        return replace(
            self,
            samples=tuple(
                replace(s, mask=tuple(int(keep(i, j)) for j in range(s.response)))
                for i, s in enumerate(self.samples)
            ),
        )

    def of_owner(self, dp_rank: int) -> tuple[list[int], Batch]:
        """Return the samples of one data-parallel rank: their indices, and a batch of their own."""
        chosen = [i for i, owner in enumerate(self.owners) if owner == dp_rank]
        return chosen, self.only(chosen)

    def only(self, chosen: Sequence[int]) -> Batch:
        """Return a batch for one rank alone that has the chosen samples."""
        return replace(
            self, samples=tuple(self.samples[i] for i in chosen), owners=(0,) * len(chosen)
        )


def make(
    lengths: Iterable[tuple[int, int]],
    rewards: Sequence[float],
    owners: Sequence[int],
    *,
    per_token: bool,
    mask_dtype: str,
) -> Batch:
    """Make a batch in which nothing is masked out.

    The values of a sample are its reward, the same for each token. With ``per_token`` they also
    wander around it, so that a function which mixes tokens up cannot pass.
    """
    samples = []
    for i, (total, response) in enumerate(lengths):
        reward = rewards[i % len(rewards)]
        values = tuple(
            reward + (0.5 * math.sin(1.7 * j + 3.1 * i) if per_token else 0.0)
            for j in range(response)
        )
        samples.append(Sample(total, response, values, (1,) * response))
    return Batch(tuple(samples), tuple(owners), mask_dtype=mask_dtype)


def standard(dp: int, *, per_token: bool, mask_dtype: str) -> Batch:
    """The eight standard samples, or as many more as give each data-parallel rank one."""
    count = max(len(STANDARD), dp)
    lengths = [STANDARD[i % len(STANDARD)] for i in range(count)]
    owners = [i % dp for i in range(count)]
    return make(lengths, REWARDS, owners, per_token=per_token, mask_dtype=mask_dtype)
