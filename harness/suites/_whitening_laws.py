"""The laws of whitening over a data-parallel × context-parallel group.

Each law checks one thing. Where a law is about *who takes part* or *what may differ*, the standard
is the same function on one rank or on a harmless variant of the batch, so that a wrong variance,
say, breaks the law about the reference and not every other law too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from harness.suites import _reference as reference
from harness.suites._laws import Laws
from harness.suites._whitening_compare import expect, expect_as_if_alone, expect_reference
from harness.suites._whitening_session import Result, Session, Token

LAWS: Laws[Session] = Laws("whitening")


def _one_rank(session: Session) -> str | None:
    return "a world of one rank has nobody to disagree with" if session.axes.alone else None


def _one_shard(session: Session) -> str | None:
    if session.axes.shards == 1:
        return "one rank holds everything, so none can be without tokens"
    if session.traits.scope == "local" and session.axes.cp == 1:
        return "with local scope and without context parallelism nobody waits for another rank"
    return None


def _no_empty_rank(session: Session) -> str | None:
    if session.adapter.form == "rollout" and session.axes.cp == 1:
        return "without context parallelism every rank has whole samples, none is without tokens"
    return _one_shard(session)


def _rewards_only(session: Session) -> str | None:
    if session.adapter.form == "rollout":
        return "a rollout gives one float reward for each sample, so this cannot be put into it"
    return None


def _eps_usable(session: Session) -> str | None:
    if session.traits.eps < 1e-20:
        return f"eps={session.traits.eps!r} is too small to be seen in float32"
    return None


def _eps_needed(session: Session) -> str | None:
    return "with eps=0 a variance of zero has no whitened value" if not session.traits.eps else None


@LAWS.law(_one_rank)
def same_value_on_every_rank(session: Session) -> None:
    """All ranks that hold tokens of a sample give equal tokens the same whitened value.

    Catches statistics taken over data-parallel ranks without context-parallel ones: the two halves
    of one sequence then get different advantages, and every rank by itself looks right. Also
    catches tensor-parallel replicas of which only one was whitened.
    """
    [result] = session.run(session.standard(per_token=False))
    first: dict[int, Token] = {}
    for token in result.tokens:
        first.setdefault(token.sample, token)
    expect(
        session,
        result,
        result.tokens,
        lambda t: first[t.sample].value,
        than=lambda t: f"{first[t.sample].outcome.label}, for an equal token of the same sample,",
    )


@LAWS.law(_one_rank)
def same_for_every_factorization(session: Session) -> None:
    """A sample's whitened values do not depend on how many ranks share the work, nor how.

    Catches anything that differs between a debugging run on one rank and a run on many: weights
    forgotten in a mean of means, a group too small or too large, a correction of the variance that
    only one code path makes.
    """
    batch = session.standard()
    right = session.alone(batch)
    [result] = session.run(batch)
    expect(
        session,
        result,
        result.kept,
        lambda t: right[t.sample][t.position],
        than="the same function on one rank that holds everything",
    )


@LAWS.law()
def equals_float64_reference(session: Session) -> None:
    """The whitened values are those of an independent float64 computation.

    Catches what is wrong in the same way on every rank: a biased variance where an unbiased one is
    declared, a mean of means, a mean that is not taken off.
    """
    [result] = session.run(session.standard())
    expect_reference(session, result, result.kept)


@LAWS.law(_no_empty_rank)
def rank_with_no_tokens(session: Session) -> None:
    """A rank that owns no token still takes part, and what the others get is right.

    Catches ``if mask.numel() > 0: all_reduce(...)``: under zigzag context parallelism a short
    response may lie wholly on other ranks, and the rank without tokens must not skip the
    collective that they wait in. (With no empty rank such a guard passes every other test.)
    """
    dp, cp = session.axes.dp, session.axes.cp
    if cp > 1:  # short responses at the end of long sequences lie on cp rank 0 alone
        lengths, owners = [(256, 16), (200, 10)], [0, 0]
        lengths += [(64, 48)] * (dp - 1)
        owners += list(range(1, dp))
    else:
        lengths, owners = [(64, 48), (100, 90), (256, 0)], [0, 0, dp - 1]
        lengths += [(40, 12)] * (dp - 2)
        owners += list(range(1, dp - 1))
    batch = session.batch(lengths, [1.5, -0.5, -1.0, 2.0], owners)
    [result] = session.run(batch)
    expect_as_if_alone(
        session,
        result,
        cause="a rank without tokens did not take part as the others did",
    )


@LAWS.law(_one_shard)
def rank_with_all_tokens_masked(session: Session) -> None:
    """A rank whose tokens are all masked out still takes part, and the result is right.

    Catches ``if mask.any(): all_reduce(...)``, which skips a collective that the other ranks wait
    in as soon as one rank's samples are all filtered out.
    """
    batch = session.standard()
    last_dp, last_cp = session.axes.dp - 1, session.axes.cp - 1
    silent = {
        (i, p) for i, held in batch.local(session.axes.cp, last_dp, last_cp).items() for p in held
    }
    batch = batch.with_mask(lambda i, j: (i, j) not in silent)
    [result] = session.run(batch)
    expect_as_if_alone(
        session,
        result,
        cause="a rank whose tokens are all masked out did not take part as the others did",
    )


@LAWS.law()
def globally_empty_mask(session: Session) -> None:
    """If every token everywhere is masked out, all ranks do the same, and what is declared.

    Catches a silent 0/0, which poisons the weights with NaN, a count quietly clamped to one where
    an error is expected, and an error raised on some ranks while the others go on.
    """
    batch = session.standard().with_mask(lambda i, j: False)
    [result] = session.run(batch, catch=True)
    _expect_end(session, result, session.traits.all_masked, "all_masked", "a globally empty mask")


@LAWS.law()
def one_token(session: Session) -> None:
    """A single kept token in the whole group is whitened with a variance of zero, or as declared.

    Catches the unbiased correction n / (n − 1) at n = 1, which is a division by zero: one kept
    token then makes NaN of the whole batch.
    """
    batch = session.standard().with_mask(lambda i, j: (i, j) == (0, 0))
    batch = batch.with_values(lambda i, j, v: 1.5 if i == 0 else -0.5)
    if session.traits.scope == "local":  # one kept token for each data-parallel rank
        heads = {batch.owners.index(owner) for owner in batch.owners}
        batch = batch.with_mask(lambda i, j: i in heads and j == 0)
    raises = session.traits.one_token == "raises"
    [result] = session.run(batch, catch=raises)
    if raises:
        _expect_end(session, result, "raises", "one_token", "a single kept token")
        return
    expect_reference(
        session,
        result,
        result.kept,
        cause="n / (n − 1) at n = 1: correct the variance only where n ≥ 2",
        rtol=0.05,
        atol=1e-2,
    )


@LAWS.law(_eps_needed)
def zero_variance(session: Session) -> None:
    """If all kept values are equal the result is finite, and zero where the mean is taken off.

    Catches a missing eps (0/0 is NaN), an eps that is added after the division, and a variance
    that rounding has made negative: all rewards alike is an everyday batch.
    """
    batch = session.standard().with_values(lambda i, j, v: 1.5)
    [result] = session.run(batch)
    expect_reference(
        session,
        result,
        result.kept,
        cause="the standard deviation is zero here: where does eps come in?",
        rtol=0.05,
        atol=1e-2,
    )


@LAWS.law(_eps_usable)
def eps_in_its_place(session: Session) -> None:
    """Where the variance is as small as eps, the result is that of the declared eps and place.

    Catches ``std + eps`` where ``var + eps`` is declared (with eps 1e-8 the first divides by 1e-8
    where the second divides by 1e-4), and another eps than the declared one: both show only when
    rewards are nearly equal, where they change the advantages by any factor.
    """
    tiny = 0.5 * math.sqrt(session.traits.eps)
    batch = session.standard(per_token=False)
    batch = batch.with_values(lambda i, j, v: tiny if i % 2 else -tiny)
    [result] = session.run(batch)
    expect_reference(session, result, result.kept, rtol=1e-2, atol=1e-3)


@LAWS.law()
def mean_much_larger_than_std(session: Session) -> None:
    """Values with a mean a thousand times their spread are whitened as well as any.

    Catches the one-pass variance E[x²] − E[x]² in float32: at a mean of 100 and a standard
    deviation of 0.1 it gives an output of the wrong spread, at 1000 NaN. Sum squared deviations
    from the global mean instead, or use float64.
    """
    plain = session.standard()
    batches = [
        plain.with_values(lambda i, j, v, mean=mean: mean + 0.1 * v)  # type: ignore[misc]
        for mean in (100.0, 300.0, 1000.0)
    ]
    for result in session.run(*batches):
        expect_reference(
            session,
            result,
            result.kept,
            cause="E[x²] − E[x]² cancels in float32; take deviations from the global mean",
            rtol=1e-2,
            atol=1e-2,
        )


@LAWS.law(_rewards_only)
def nan_under_the_mask(session: Session) -> None:
    """NaN or infinity at a masked-out token does not reach any other token.

    Catches ``(values * mask).sum()``: NaN times zero is NaN, so a single undefined value in the
    padding makes NaN of the whole batch. Select with ``torch.where`` instead. A function that
    declares masked-out tokens to be zero gives zero there too.
    """
    clean = session.standard().with_mask(_four_of_five)
    dirty = [
        clean.with_values(lambda i, j, v, bad=bad: v if _four_of_five(i, j) else bad)  # type: ignore[misc]
        for bad in (0.0, math.nan, math.inf)
    ]
    right, *results = session.run(*dirty)
    standard = right.first_holders
    for result, bad in zip(results, ("NaN", "infinity"), strict=True):
        cause = f"{bad} * 0 is NaN: the mask was multiplied in; select with torch.where instead"
        expect(
            session,
            result,
            result.kept,
            lambda t: standard[t.sample][t.position].value,
            than=f"the same batch without {bad} under the mask",
            cause=cause,
        )
        if session.traits.masked_out == "zero":
            expect(
                session,
                result,
                result.masked_out,
                lambda t: 0.0,
                than="the declared masked_out='zero'",
                cause=cause,
            )


@LAWS.law()
def mask_of_any_dtype(session: Session) -> None:
    """A mask of bool, int or float gives the same result.

    Catches ``1 - mask`` and ``-mask``, which bool tensors refuse, and ``values[mask]``, which
    selects with a bool mask and silently *indexes* with an int one.
    """
    plain = session.standard().with_mask(_four_of_five)
    dtypes = session.traits.mask_dtypes
    results = session.run(*(replace(plain, mask_dtype=d) for d in dtypes), catch=True)
    for result, dtype in zip(results, dtypes, strict=True):
        for outcome in result.outcomes:
            if outcome.raised:
                raise AssertionError(
                    f"{session.adapter.name} raises with a {dtype} mask: {outcome.raised}, on "
                    f"{outcome.label}\nlikely cause: arithmetic that this dtype does not have; "
                    "convert once with mask.to(values.dtype) or mask.bool(), or declare "
                    "mask_dtypes"
                )
    standard = results[0].first_holders
    for result, dtype in zip(results[1:], dtypes[1:], strict=True):
        expect(
            session,
            result,
            result.kept,
            lambda t: standard[t.sample][t.position].value,
            than=f"the same mask in {dtypes[0]}",
            cause=f"a {dtype} mask is taken for something else, such as an index",
        )


@LAWS.law(_rewards_only)
def bfloat16_input(session: Session) -> None:
    """bfloat16 values are whitened as well as bfloat16 can say, with statistics in float32.

    Catches sums, counts or means kept in bfloat16, which has 8 significant bits, and a float32
    mean taken off bfloat16 values, which torch first rounds to bfloat16: the mean is then off by a
    sizeable part of the standard deviation, for every token in the same direction.
    """
    # Half-way between two bfloat16 numbers, so that a mean rounded to bfloat16 is as wrong as can be.
    batch = session.standard()
    offset = 12.03125 - _mean(batch.values)
    shifted = replace(batch.with_values(lambda i, j, v: v + offset), dtype="bfloat16")
    [result] = session.run(shifted)
    expect_reference(
        session,
        result,
        result.kept,
        cause="sums or means rounded to bfloat16; convert with values.float() first (torch "
        "rounds a 0-dimensional float32 mean to bfloat16 before it takes it off)",
        rtol=1.2e-2,
        atol=4e-3,
    )


@LAWS.law()
def mask_respected(session: Session) -> None:
    """Masked-out tokens do not enter the statistics, and come out as declared.

    Catches a mask that is ignored, or used for the sum and not for the count, so that padding
    pulls the mean towards itself; and masked-out tokens that come out other than declared.
    """
    batch = session.standard().with_mask(_some_kept(session.per_token))
    keep = {(i, j) for i, s in enumerate(batch.samples) for j, m in enumerate(s.mask) if m}
    loud = batch.with_values(lambda i, j, v: v if (i, j) in keep else 1000.0 + v)
    plain, result = session.run(batch, loud)
    standard = plain.first_holders
    expect(
        session,
        result,
        result.kept,
        lambda t: standard[t.sample][t.position].value,
        than="the same batch with small values under the mask",
        cause="masked-out tokens enter the statistics",
        rtol=1e-3,
        atol=1e-3,
    )
    # Either correction will do: which one is declared is the business of another law.
    expect_reference(
        session,
        plain,
        plain.kept,
        ddofs=(*session.traits.ddofs, 0, 1),
        cause="masked-out tokens are counted, though they are not summed",
        rtol=1e-3,
        atol=1e-3,
    )
    if session.traits.masked_out == "any":
        return
    lines = _affine_lines(session, plain)
    expect(
        session,
        plain,
        plain.masked_out,
        lambda t: reference.masked_out_value(
            plain.value(t),
            _on_line(lines[_pool_of(session, plain, t)], plain.value(t)),
            session.traits,
        ),
        than=f"masked_out={session.traits.masked_out!r}, as declared,",
        cause="declare what comes out at a masked-out token: masked_out='affine', 'zero', "
        "'unchanged' or 'any'",
        rtol=1e-3,
        atol=1e-3,
    )


@LAWS.law()
def input_not_mutated(session: Session) -> None:
    """The caller's values and mask hold the same numbers afterwards and were never written.

    Catches ``values -= mean`` on the caller's own tensor, which whitens what the caller goes on to
    log or to whiten again. Version counters are compared too, so that writing and writing back
    does not pass.
    """
    [result] = session.run(session.standard().with_mask(_some_kept(session.per_token)))
    for outcome in result.outcomes:
        if outcome.mutated:
            raise AssertionError(
                f"{session.adapter.name} writes to its input on {outcome.label}: "
                + "; ".join(outcome.mutated)
                + "\nlikely cause: an in-place operator (-=, *=, mul_, masked_fill_) on the "
                "argument or on a view of it"
            )


def _four_of_five(sample: int, position: int) -> bool:
    return (position + sample) % 5 != 2


def _some_kept(per_token: bool) -> Callable[[int, int], bool]:
    """Mask out every fifth token; where values cannot differ within a sample, one sample whole."""
    if per_token:
        return _four_of_five
    # The first token stays in: a rollout's reward is that of its sample's first token.
    return lambda sample, position: (
        sample != 3 and (position == 0 or _four_of_five(sample, position))
    )


def _mean(rows: list[list[float]]) -> float:
    flat = [v for row in rows for v in row]
    return math.fsum(flat) / len(flat)


def _pool_of(session: Session, result: Result, token: Token) -> int:
    return result.batch.owners[token.sample] if session.traits.scope == "local" else 0


def _affine_lines(session: Session, result: Result) -> dict[int, tuple[float, float]]:
    """Fit, for each set of samples with common statistics, output = scale * value + shift."""
    pools: dict[int, list[tuple[float, float]]] = {}
    for token in result.kept:
        pools.setdefault(_pool_of(session, result, token), []).append(
            (result.value(token), token.value)
        )
    lines = {}
    for pool, points in pools.items():
        (x0, y0), (x1, y1) = min(points), max(points)
        scale = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
        lines[pool] = (scale, y0 - scale * x0)
    return lines


def _on_line(line: tuple[float, float], value: float) -> float:
    return line[0] * value + line[1]


def _expect_end(session: Session, result: Result, declared: str, trait: str, what: str) -> None:
    """Raise an AssertionError unless every rank ended as declared."""
    __tracebackhide__ = True
    ends = {o.label: o.raised.split(":", 1)[0] if o.raised else "returned" for o in result.outcomes}
    listing = "; ".join(
        f"{o.label} {'raised ' + o.raised if o.raised else 'returned'}" for o in result.outcomes
    )
    if len(set(ends.values())) > 1:
        raise AssertionError(
            f"{session.adapter.name}: with {what} the ranks do not end alike: {listing}"
        )
    if declared == "alike":
        return
    raised = result.outcomes[0].raised
    if declared == "raises":
        if not raised:
            shown = next(iter(result.tokens))
            raise AssertionError(
                f"{session.adapter.name}: with {what} every rank was to raise, and none did: "
                f"{result.where(shown)} it gives {shown.value:+.6f}\n"
                f"if that is meant, declare it: {trait}="
                + ("'unchanged', 'zeros', 'nan' or 'alike'" if trait == "all_masked" else "'zero'")
            )
        return
    if raised:
        raise AssertionError(
            f"{session.adapter.name}: with {what} every rank was to return "
            f"{trait}={declared!r}: {listing}"
        )
    expect(
        session,
        result,
        result.tokens,
        lambda t: {"unchanged": result.value(t), "zeros": 0.0, "nan": math.nan}[declared],
        than=f"{trait}={declared!r}, as declared,",
        cause=f"declare what comes out: {trait}='raises', 'unchanged', 'zeros', 'nan' or 'alike'",
    )
