"""Which context-parallel rank holds which response token, which data-parallel rank which sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def zigzag_slices(total: int, response: int, cp: int) -> tuple[tuple[slice, ...], ...]:
    """Return, for each context-parallel rank, the slices of the response that it holds.

    ``total`` counts the tokens of the sequence, prompt and response together. The sequence is cut
    into ``2 * cp`` chunks of ``ceil(total / (2 * cp))`` tokens (the last may be short or empty) and
    rank ``r`` holds chunks ``r`` and ``2 * cp - 1 - r``, as in zigzag ring attention. A response
    token is scored by the logit one position before it, so it belongs to the rank that holds
    *that* position.

    The slices are in response coordinates (0 is the first response token), ascending, never empty
    and never adjacent: ``[response[s] for s in zigzag_slices(...)[cp_rank]]`` is what the rank
    holds, in its own order. The law: the slices of all ranks together are the response, each token
    once.

    >>> zigzag_slices(total=40, response=12, cp=2)
    ((slice(3, 12, None),), (slice(0, 3, None),))
    """
    if cp < 1:
        raise ValueError(f"cp={cp}: a context-parallel group has at least one rank")
    if response < 0 or total < 1:
        raise ValueError(f"total={total}, response={response}: lengths cannot be negative or nil")
    if response >= total:
        raise ValueError(
            f"response={response} of total={total} leaves a prompt of {total - response} tokens; "
            "the first response token needs a token before it, whose logit predicts it"
        )
    chunk = -(-total // (2 * cp))
    first_logit = total - response - 1  # predicts response token 0
    ranks = []
    for rank in range(cp):
        held: list[slice] = []
        for index in (rank, 2 * cp - 1 - rank):
            start = max(index * chunk - first_logit, 0)
            stop = min((index + 1) * chunk - first_logit, response)
            if start >= stop:
                continue
            if held and held[-1].stop == start:  # the two middle chunks of the last rank touch
                held[-1] = slice(held[-1].start, stop)
            else:
                held.append(slice(start, stop))
        ranks.append(tuple(held))
    return tuple(ranks)


def round_robin_shard(samples: Sequence[T], dp: int) -> tuple[tuple[T, ...], ...]:
    """Return, for each data-parallel rank, the samples dealt to it in turn.

    Rank ``r`` of ``dp`` gets samples ``r``, ``r + dp``, ``r + 2 * dp`` and so on, their order kept.
    The law: sample ``i`` is sample ``i // dp`` of rank ``i % dp``, so that every sample is dealt
    exactly once and no rank has two more than another.

    >>> round_robin_shard("abcde", dp=2)
    (('a', 'c', 'e'), ('b', 'd'))
    """
    if dp < 1:
        raise ValueError(f"dp={dp}: a data-parallel group has at least one rank")
    return tuple(tuple(samples[rank::dp]) for rank in range(dp))


def held_positions(total: int, response: int, cp: int, cp_rank: int) -> tuple[int, ...]:
    """Return the response positions that one context-parallel rank holds, in its local order."""
    return tuple(
        position
        for piece in zigzag_slices(total, response, cp)[cp_rank]
        for position in range(piece.start, piece.stop)
    )
