"""Comparing whitened numbers, and guessing from wrong ones what was done wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from harness.suites import _reference as reference
from harness.suites._batch import Batch
from harness.suites._numbers import close
from harness.suites._traits import Traits
from harness.suites._whitening_session import Result, Session, Token

RTOL = 1e-4
ATOL = 1e-4


def expect(
    session: Session,
    result: Result,
    tokens: Iterable[Token],
    expected: Callable[[Token], float],
    *,
    than: str | Callable[[Token], str],
    cause: str = "",
    rtol: float = RTOL,
    atol: float = ATOL,
) -> None:
    """Raise an AssertionError unless each token's value is the expected one."""
    __tracebackhide__ = True
    judged = [(t, expected(t)) for t in tokens]
    wrong = [(t, e) for t, e in judged if not close(t.value, e, rtol=rtol, atol=atol)]
    if not wrong:
        return
    token, wanted = wrong[0]
    ranks = sorted({t.outcome.rank for t, _ in wrong})
    largest = max((abs(t.value - e) for t, e in wrong if math.isfinite(t.value - e)), default=None)
    worst = "" if largest is None else f", by up to {largest:.6g}"
    guess = (
        diagnose(result, session.traits, rtol=rtol, atol=atol) or cause or _nan_text(wrong[0][0])
    )
    other = than if isinstance(than, str) else than(token)
    raise AssertionError(
        f"{session.adapter.name} gives {token.value:+.6f} where {other} gives {wanted:+.6f}: "
        f"{result.where(token)}\n"
        f"{len(wrong)} of {len(judged)} tokens differ{worst}, on ranks {ranks} "
        f"of the world {session.axes}" + (f"\nlikely cause: {guess}" if guess else "")
    )


def matches_reference(result: Result, tokens: Sequence[Token], traits: Traits, ddof: int) -> bool:
    """Whether all tokens are what the reference gives with this correction."""
    right = reference.whiten(result.batch, traits, ddof)
    return all(close(t.value, right[t.sample][t.position], rtol=RTOL, atol=ATOL) for t in tokens)


def expect_reference(
    session: Session,
    result: Result,
    tokens: Sequence[Token],
    *,
    ddofs: Sequence[int] = (),
    cause: str = "",
    rtol: float = RTOL,
    atol: float = ATOL,
) -> None:
    """Raise an AssertionError unless the tokens are what the float64 reference gives.

    Where several corrections are allowed, all tokens have to follow the same one.
    """
    __tracebackhide__ = True
    traits = session.traits
    allowed = ddofs or traits.ddofs
    ddof = next((d for d in allowed if matches_reference(result, tokens, traits, d)), allowed[0])
    right = reference.whiten(result.batch, traits, ddof)
    expect(
        session,
        result,
        tokens,
        lambda t: right[t.sample][t.position],
        than=f"the float64 reference (ddof={ddof})",
        cause=cause,
        rtol=rtol,
        atol=atol,
    )


def expect_as_if_alone(session: Session, result: Result, *, cause: str) -> None:
    """Raise an AssertionError unless the kept tokens came out as if one rank held everything.

    What the reference gives is right by itself; only a function that departs from it is asked what
    it gives on one rank, so that its other mistakes are left to the laws about them.
    """
    __tracebackhide__ = True
    tokens = result.kept
    if any(matches_reference(result, tokens, session.traits, d) for d in session.traits.ddofs):
        return
    right = session.alone(result.batch)
    expect(
        session,
        result,
        tokens,
        lambda t: right[t.sample][t.position],
        than="the same function on one rank that holds everything",
        cause=cause,
    )


def diagnose(result: Result, traits: Traits, *, rtol: float, atol: float) -> str:
    """Find the known mistake whose numbers are these, or return an empty text."""
    tokens = result.kept
    if not tokens:
        return ""
    for text, out in _mistakes(result.batch, result.axes.cp, traits):
        numbers = [out[t.sample][t.position] for t in tokens]
        # NaN is what many mistakes give: it points to none of them.
        if all(map(math.isfinite, numbers)) and all(
            close(t.value, x, rtol=rtol, atol=atol) for t, x in zip(tokens, numbers, strict=True)
        ):
            return text
    return ""


def _nan_text(token: Token) -> str:
    if not math.isnan(token.value):
        return ""
    return "a division 0/0, the square root of a negative variance, or 0 * NaN"


def _mistakes(batch: Batch, cp: int, traits: Traits) -> Iterable[tuple[str, list[list[float]]]]:
    """Yield known mistakes with the numbers that each would give."""
    where = _holders(batch, cp)
    ddof = traits.ddofs[0]
    values = batch.values
    yield "nothing was whitened: these are the values that went in", values
    if traits.ddof != "auto":
        other = 1 - ddof
        yield (
            f"the variance divides by n{' − 1' if other else ''}: declare ddof={other} if that is "
            "meant",
            reference.whiten(batch, traits, other),
        )
    keys: list[tuple[str, Callable[[tuple[int, int]], int]]] = [
        (
            "the statistics were taken over dp without cp, so the ranks of a cp group disagree; "
            "use get_data_parallel_group(with_context_parallel=True)",
            lambda rank: rank[1],
        ),
        ("the statistics were taken over cp only, each dp rank for itself", lambda rank: rank[0]),
        (
            "the statistics are each rank's own: no reduction, or a group of one rank",
            lambda rank: rank[0] * cp + rank[1],
        ),
    ]
    for text, key in keys:
        yield text, _pooled(batch, where, key, traits, ddof)
    yield (
        "mean of means: ranks were averaged without weights",
        _mean_of_means(batch, where, traits, ddof),
    )
    kept_all = replace(
        batch, samples=tuple(replace(s, mask=(1,) * s.response) for s in batch.samples)
    )
    yield "the mask was ignored: masked-out tokens count", reference.whiten(kept_all, traits, ddof)
    for place in ("variance", "std", "clamp_variance", "clamp_std"):
        if place != traits.eps_place:
            yield (
                f"eps sits elsewhere: declare eps_place={place!r} if that is meant",
                reference.whiten(batch, replace(traits, eps_place=place), ddof),
            )
    for shift in (True, False, "added_back"):
        if shift != traits.shift_mean:
            yield (
                f"declare shift_mean={shift!r} if that is meant",
                reference.whiten(batch, replace(traits, shift_mean=shift), ddof),
            )


def _holders(batch: Batch, cp: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Map (sample, position) to the (dp, cp) rank that holds it."""
    return {
        (sample, position): (dp, c)
        for dp in set(batch.owners)
        for c in range(cp)
        for sample, positions in batch.local(cp, dp, c).items()
        for position in positions
    }


def _kept_by(
    batch: Batch,
    where: dict[tuple[int, int], tuple[int, int]],
    key: Callable[[tuple[int, int]], int],
) -> dict[int, list[float]]:
    values = batch.values
    pools: dict[int, list[float]] = {}
    for (i, j), rank in where.items():
        pools.setdefault(key(rank), [])
        if batch.samples[i].mask[j]:
            pools[key(rank)].append(values[i][j])
    return pools


def _pooled(
    batch: Batch,
    where: dict[tuple[int, int], tuple[int, int]],
    key: Callable[[tuple[int, int]], int],
    traits: Traits,
    ddof: int,
) -> list[list[float]]:
    stats = {
        k: reference.mean_and_variance(kept, ddof)
        for k, kept in _kept_by(batch, where, key).items()
    }
    return _apply(batch, traits, lambda i, j: stats[key(where[i, j])])


def _mean_of_means(
    batch: Batch, where: dict[tuple[int, int], tuple[int, int]], traits: Traits, ddof: int
) -> list[list[float]]:
    per_rank = [
        reference.mean_and_variance(kept, ddof)
        for kept in _kept_by(batch, where, lambda rank: rank[0] * 10_000 + rank[1]).values()
        if kept
    ]
    mean = math.fsum(m for m, _ in per_rank) / len(per_rank)
    variance = math.fsum(v for _, v in per_rank) / len(per_rank)
    return _apply(batch, traits, lambda i, j: (mean, variance))


def _apply(
    batch: Batch, traits: Traits, stats: Callable[[int, int], tuple[float, float]]
) -> list[list[float]]:
    out = []
    for i, row in enumerate(batch.values):
        line = []
        for j, v in enumerate(row):
            mean, variance = stats(i, j)
            if math.isnan(variance):
                line.append(math.nan)
                continue
            scale = reference.inverse_std(variance, traits)
            line.append(reference.affine(v, mean, scale, traits))
        out.append(line)
    return out
