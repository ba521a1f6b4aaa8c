"""Who holds which token and which sample."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.suites import round_robin_shard, zigzag_slices

LENGTHS = st.tuples(st.integers(1, 300), st.integers(0, 300)).map(
    lambda pair: (pair[0] + pair[1], pair[1])
)


def counts(total: int, response: int, cp: int) -> list[int]:
    """How many response tokens each rank holds."""
    return [sum(s.stop - s.start for s in held) for held in zigzag_slices(total, response, cp)]


@given(LENGTHS, st.integers(1, 9))
def test_slices_of_all_ranks_partition_the_response(lengths: tuple[int, int], cp: int) -> None:
    """Each response token is held by exactly one rank."""
    total, response = lengths
    held = [
        p for rank in zigzag_slices(total, response, cp) for s in rank for p in range(response)[s]
    ]
    assert list(range(response)) == sorted(held)


@given(LENGTHS, st.integers(1, 9))
def test_slices_of_a_rank_are_in_order(lengths: tuple[int, int], cp: int) -> None:
    """A rank's slices ascend, are not empty and do not touch, and there are at most two."""
    total, response = lengths
    for rank in zigzag_slices(total, response, cp):
        assert len(rank) <= 2
        assert all(s.start < s.stop for s in rank)
        assert all(a.stop < b.start for a, b in itertools.pairwise(rank))


@given(LENGTHS, st.integers(1, 9))
def test_a_token_belongs_to_the_rank_whose_chunk_predicts_it(
    lengths: tuple[int, int], cp: int
) -> None:
    """The position before a response token lies in chunk r or 2·cp − 1 − r of its rank r."""
    total, response = lengths
    chunk = -(-total // (2 * cp))
    for rank, slices in enumerate(zigzag_slices(total, response, cp)):
        for s in slices:
            chunks = {(total - response - 1 + p) // chunk for p in range(s.start, s.stop)}
            assert chunks <= {rank, 2 * cp - 1 - rank}


@pytest.mark.parametrize(
    ("total", "response", "cp", "expected"),
    [
        (9000, 1000, 2, [1000, 0]),
        (3500, 500, 4, [433, 67, 0, 0]),
        (64, 48, 2, [16, 32]),
        (100, 90, 2, [40, 50]),
        (40, 12, 2, [9, 3]),
    ],
)
def test_known_token_counts(total: int, response: int, cp: int, expected: list[int]) -> None:
    """Measured token counts per rank come out."""
    assert expected == counts(total, response, cp)


def test_one_rank_holds_the_response_in_one_slice() -> None:
    """Without context parallelism there is nothing to cut."""
    assert ((slice(0, 48),),) == zigzag_slices(64, 48, 1)


def test_an_empty_response_has_no_slices() -> None:
    """A response of no tokens is held by nobody."""
    assert ((), ()) == zigzag_slices(64, 0, 2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((10, 10, 2), "leaves a prompt of 0 tokens"),
        ((10, 4, 0), "cp=0: a context-parallel group has at least one rank"),
        ((10, -1, 2), "lengths cannot be negative"),
    ],
)
def test_impossible_lengths_are_refused(arguments: tuple[int, int, int], text: str) -> None:
    """A prompt of no tokens, a group of no ranks and a negative length are errors."""
    with pytest.raises(ValueError, match=text):
        zigzag_slices(*arguments)


@given(st.lists(st.integers()), st.integers(1, 9))
def test_shards_of_all_ranks_partition_the_samples(samples: list[int], dp: int) -> None:
    """Sample i is sample i // dp of rank i % dp."""
    shards = round_robin_shard(samples, dp)
    assert samples == [shards[i % dp][i // dp] for i in range(len(samples))]
    assert len(samples) == sum(map(len, shards))


@given(st.integers(0, 100), st.integers(1, 9))
def test_no_rank_has_two_samples_more_than_another(n: int, dp: int) -> None:
    """The shards are as even as they can be."""
    sizes = [len(shard) for shard in round_robin_shard(range(n), dp)]
    assert max(sizes) - min(sizes) <= 1


def test_a_group_of_no_ranks_is_refused() -> None:
    """Samples cannot be dealt to nobody."""
    with pytest.raises(ValueError, match="dp=0"):
        round_robin_shard([1], 0)


def test_listing_the_laws_imports_no_torch() -> None:
    """Collecting a test module that names the suites costs no torch import."""
    program = (
        "import sys\n"
        "from harness.suites import kl_aliasing, whitening\n"
        "whitening.laws(), kl_aliasing.laws()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode
