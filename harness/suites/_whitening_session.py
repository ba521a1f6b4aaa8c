"""Running batches through the function under test, and putting the ranks' pieces together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from harness.suites._batch import Batch, make, standard
from harness.suites._traits import Traits
from harness.suites._whitening_rank import Adapter, Outcome, whiten_batches
from harness.suites._worlds import Axes, WorldFactory


class Token(NamedTuple):
    """One response token as one rank returned it."""

    sample: int
    position: int
    value: float
    outcome: Outcome


@dataclass(frozen=True)
class Result:
    """What all ranks did with one batch."""

    batch: Batch
    axes: Axes
    outcomes: list[Outcome]

    @cached_property
    def tokens(self) -> list[Token]:
        """Every token on every rank that holds it, lowest rank first."""
        return [
            Token(sample, position, value, outcome)
            for outcome in self.outcomes
            for sample, positions in self.batch.local(self.axes.cp, outcome.dp, outcome.cp).items()
            for position, value in zip(positions, outcome.outputs[sample], strict=True)
        ]

    @cached_property
    def first_holders(self) -> list[list[Token]]:
        """For each sample its tokens in order, each from the lowest rank that holds it.

        Whether ranks that hold the same token agree is for one law alone to say.
        """
        found: list[dict[int, Token]] = [{} for _ in self.batch.samples]
        for token in self.tokens:
            found[token.sample].setdefault(token.position, token)
        return [
            [f[p] for p in range(s.response)]
            for f, s in zip(found, self.batch.samples, strict=True)
        ]

    @cached_property
    def kept(self) -> list[Token]:
        """The first holders' tokens that are not masked out."""
        return [t for row in self.first_holders for t in row if self._mask(t)]

    @cached_property
    def masked_out(self) -> list[Token]:
        """The first holders' tokens that are masked out."""
        return [t for row in self.first_holders for t in row if not self._mask(t)]

    def _mask(self, token: Token) -> int:
        return self.batch.samples[token.sample].mask[token.position]

    def value(self, token: Token) -> float:
        """The value that went in at a token."""
        return self.batch.values[token.sample][token.position]

    def where(self, token: Token) -> str:
        """Say which token this is and who returned it."""
        s = self.batch.samples[token.sample]
        return (
            f"sample {token.sample} (total {s.total}, response {s.response}), "
            f"position {token.position}, on {token.outcome.label}"
        )


@dataclass(frozen=True)
class Session:
    """A function under test, its declared traits, and the world in which a law is checked."""

    adapter: Adapter
    axes: Axes
    traits: Traits = field(default_factory=Traits)
    factory: WorldFactory | None = None

    @property
    def per_token(self) -> bool:
        """Whether values may differ within a sample: a rollout has one reward for each."""
        return self.adapter.form != "rollout"

    @property
    def mask_dtype(self) -> str:
        """The mask dtype used where the law is not about it."""
        return self.traits.mask_dtypes[0]

    def standard(self, *, per_token: bool | None = None) -> Batch:
        """The standard batch for this world."""
        wander = self.per_token if per_token is None else per_token
        return standard(self.axes.dp, per_token=wander, mask_dtype=self.mask_dtype)

    def batch(
        self, lengths: list[tuple[int, int]], rewards: list[float], owners: list[int]
    ) -> Batch:
        """A batch with chosen lengths and owners."""
        return make(lengths, rewards, owners, per_token=self.per_token, mask_dtype=self.mask_dtype)

    def run(self, *batches: Batch, catch: bool = False) -> list[Result]:
        """Run each batch in the world under test, one after another."""
        return self._run(self.axes, list(batches), catch)

    def alone(self, batch: Batch) -> list[list[float]]:
        """Whiten a batch with the same function on one rank that holds everything.

        With local scope each data-parallel rank's samples are whitened by themselves.
        """
        if self.traits.scope == "local":
            parts = [batch.of_owner(owner) for owner in sorted(set(batch.owners))]
        else:
            everything = list(range(len(batch.samples)))
            parts = [(everything, batch.only(everything))]
        try:
            results = self._run(Axes(), [part for _, part in parts], False)
        except AssertionError as error:
            error.add_note("this happened on one rank alone, whose result is the standard here")
            raise
        out: list[list[float]] = [[] for _ in batch.samples]
        for (chosen, _), result in zip(parts, results, strict=True):
            for i, tokens in zip(chosen, result.first_holders, strict=True):
                out[i] = [token.value for token in tokens]
        return out

    def _run(self, axes: Axes, batches: list[Batch], catch: bool) -> list[Result]:
        from harness.suites._worlds import default_factory

        factory = self.factory or default_factory()
        group = "dp-cp" if self.traits.scope == "group" else "cp"
        with factory(**axes.given) as world:
            ranks: list[list[Outcome]] = world.run(
                whiten_batches, self.adapter, batches, axes.cp, group, catch
            )
        results = [
            Result(batch, axes, [outcomes[i] for outcomes in ranks])
            for i, batch in enumerate(batches)
        ]
        for result in results:
            for outcome in result.outcomes:
                if outcome.malformed:
                    raise AssertionError(
                        f"{outcome.label}: {self.adapter.name}: {outcome.malformed}"
                    )
        return results
