"""Runs the code under test on real worlds and gathers what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from harness import World, WorldError

CPS = (1, 2, 4)

SEQUENCES = ((64, 48, 1.5), (100, 90, -0.5), (40, 12, -1.0))
"""Tokens in all, tokens of the response, reward."""

SEQUENCES_OF = (((256, 16, 1.5),), ((64, 48, -0.5),))
"""One sequence for each of two data-parallel ranks; the first leaves a rank without tokens."""

LOG_PROBS, REFERENCE, REWARD, KL_COEF = (0.5, 0.7, 0.9), (0.4, 0.5, 0.6), 1.0, 0.05

BOUNDED_JOIN = 180.0
"""Seconds that a test which joins its ranks with a timeout waits before it fails."""

_DIGITS = 6

Table = list[list[float]]
"""One row for each rank."""


@dataclass(frozen=True)
class Whitening:
    """What each rank gives each sequence, by cp."""

    wrong: dict[int, Table]
    right: dict[int, Table]
    tokens: dict[int, list[list[int]]]
    said: str


@dataclass(frozen=True)
class Skip:
    """The guarded collective as it was caught."""

    kind: str
    rank: int | None
    line: str
    guard: str
    """The line at which the ranks took different ways, as it is in the source."""
    decided_by: dict[int, str]
    """By rank, what the guard came out as and why: ``"False: mask.numel() = 0"``."""
    seconds_to_verdict: float
    tokens: list[int]
    summary: str
    report: str
    bounded_join_seconds: float = BOUNDED_JOIN


@dataclass(frozen=True)
class Kl:
    """The logged KL when it is logged, and after the rewards were shaped in place."""

    kl_coef: float
    before: list[float]
    after: list[float]
    after_at_kl_coef_0: list[float]
    said: str


@dataclass(frozen=True)
class Figures:
    """All that the demo shows."""

    whitening: Whitening
    skip: Skip | None
    kl: Kl

    def as_json(self) -> dict[str, Any]:
        """The figures as plain data, floats rounded to six digits."""
        white = self.whitening
        return {
            "sequences": [
                {"total": total, "response": response, "reward": reward}
                for total, response, reward in SEQUENCES
            ],
            "tokens": _by_cp(white.tokens),
            "wrong_group": _by_cp(white.wrong),
            "right_group": _by_cp(white.right),
            "wrong_group_said": white.said,
            "skip": None if self.skip is None else _rounded(asdict(self.skip)),
            "kl": _rounded(asdict(self.kl)),
        }


def gather() -> Figures:
    """Run everything. Raises RuntimeError where worlds cannot be started."""
    with ExitStack() as stack:
        worlds = {cp: stack.enter_context(World(dp=1, cp=cp)) for cp in CPS}
        guarded = stack.enter_context(World(dp=2, cp=2, explain="always"))
        return Figures(whitening=_whitening(worlds), skip=_skip(guarded), kl=_kl(worlds[1]))


def _whitening(worlds: dict[int, World]) -> Whitening:
    from harness.demo import _ranks
    from harness.suites import whitening

    wrong, right, tokens = {}, {}, {}
    for cp, world in worlds.items():
        of_wrong = world.run(_ranks.advantages, SEQUENCES, False)
        of_right = world.run(_ranks.advantages, SEQUENCES, True)
        wrong[cp] = [values for values, _ in of_wrong]
        right[cp] = [values for values, _ in of_right]
        tokens[cp] = [owned for _, owned in of_right]
    said = _what_is_said(
        lambda: whitening.check_law(
            "same_value_on_every_rank",
            _ranks.whiten_wrong,
            (1, 2),
            world_factory=_lend(worlds[2]),
        )
    )
    return Whitening(wrong, right, tokens, said)


def _skip(world: World) -> Skip | None:
    from harness.demo import _ranks

    tokens = world.run(_ranks.tokens_of_rank, SEQUENCES_OF)
    try:
        world.run(_ranks.guarded_mean, SEQUENCES_OF)
    except WorldError as error:
        finding = error.findings[0]
        explanation = error.run.explanation if error.run is not None else None
        place = explanation.divergence if explanation is not None else None
        lines = [line for rank, line in finding.sites.items() if rank not in finding.ranks]
        return Skip(
            kind=finding.kind,
            rank=finding.ranks[0] if len(finding.ranks) == 1 else None,
            line=lines[0] if lines else "",
            guard="" if place is None else place.source,
            decided_by={
                rank: f"{way.outcome}: {' = '.join(way.values[0])}"
                for way in (place.ways if place is not None else ())
                for rank in way.ranks
                if way.values
            },
            seconds_to_verdict=error.seconds_to_verdict,
            tokens=tokens,
            summary=finding.summary,
            report=str(error),
        )
    return None


def _kl(world: World) -> Kl:
    from harness.demo import _ranks
    from harness.suites import kl_aliasing

    numbers = LOG_PROBS, REFERENCE, REWARD
    [(before, after)] = world.run(_ranks.kl_before_and_after, *numbers, KL_COEF)
    [(_, at_zero)] = world.run(_ranks.kl_before_and_after, *numbers, 0.0)
    said = _what_is_said(
        lambda: kl_aliasing.check_law(
            "logged_kl_is_the_kl",
            _ranks.advantages_in_place,
            "reinforce_plus_plus",
            (1, 1),
            kl_types=["k1"],
            kl_coefs=[KL_COEF],
            world_factory=_lend(world),
        )
    )
    return Kl(KL_COEF, before, after, at_zero, said)


def _lend(world: World) -> Callable[..., AbstractContextManager[World]]:
    """A factory that hands out a live world and leaves it alive."""
    return lambda **axes: nullcontext(world)


def _what_is_said(check: Callable[[], None]) -> str:
    """The text with which a check fails; empty if it passes."""
    try:
        check()
    except AssertionError as error:
        return "\n".join([str(error), *getattr(error, "__notes__", [])])
    return ""


def _by_cp(tables: dict[int, Any]) -> dict[str, Any]:
    return {f"cp{cp}": _rounded(table) for cp, table in tables.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value
