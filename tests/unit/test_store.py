"""The rendezvous of a world, against a store of torch's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._C._distributed_c10d import HashStore, PrefixStore

from harness.launch import _store
from harness.launch._store import SharedStore, prepare

KEYS = st.sampled_from(["a", "b", "key of many bytes ä", "x/y"])
VALUES = st.binary(max_size=40)

# append is left out: torch's HashStore has its own idea of it where the key is absent.
ACTIONS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("delete_key"), KEYS),
    st.tuples(st.just("check"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("compare_set"), KEYS, VALUES, VALUES),
    st.tuples(st.just("add"), st.sampled_from(["n", "m"]), st.integers(-5, 5)),
    st.tuples(st.just("num_keys")),
    st.tuples(st.just("get"), KEYS),
)


@pytest.fixture
def descriptor() -> Iterator[int]:
    """An empty store."""
    made = os.memfd_create("store")
    prepare(made)
    yield made
    os.close(made)


def _do(store: Any, action: tuple[Any, ...]) -> Any:
    name, *arguments = action
    if name == "get" and not store.check(arguments):
        return None
    return getattr(store, name)(*arguments)


@given(st.lists(st.tuples(st.booleans(), ACTIONS), max_size=25))
@settings(max_examples=60, deadline=None)
def test_answers_as_torchs_own_store(steps: list[tuple[bool, tuple[Any, ...]]]) -> None:
    """Whichever of two ranks asks, and through torch's C++ classes, the answers are a store's."""
    descriptor = os.memfd_create("store")
    prepare(descriptor)
    stores = [SharedStore(descriptor, 2) for _ in range(2)]
    ours = [PrefixStore("p", store) for store in stores]
    theirs = PrefixStore("p", HashStore())
    try:
        for second, action in steps:
            assert _do(ours[second], action) == _do(theirs, action), action
    finally:
        os.close(descriptor)


def test_several_keys_at_once_and_values_that_grow(descriptor: int) -> None:
    """The extended interface, which gloo uses where it is asked to."""
    stores = [SharedStore(descriptor, 2) for _ in range(2)]
    one: Any
    other: Any
    one, other = (PrefixStore("p", store) for store in stores)
    one.multi_set(["a", "b"], ["1", "2"])
    other.append("b", "3")
    assert one.multi_get(["a", "b"]) == [b"1", b"23"]
    assert one.has_extended_api()


def test_a_key_that_does_not_come_is_said(descriptor: int) -> None:
    """Waiting ends with torch's own kind of error, which names the keys that are missing."""
    store = SharedStore(descriptor, 1)
    store.set("here", b"")
    with pytest.raises(dist.DistStoreError, match=r"10ms, keys: away"):
        store.wait(["here", "away"], timedelta(milliseconds=10))


def test_a_write_that_a_rank_did_not_finish_is_not_there(descriptor: int) -> None:
    """A rank that is killed in the middle of a write leaves the store as it was before."""
    one, other = SharedStore(descriptor, 2), SharedStore(descriptor, 2)
    one.set("a", b"first")
    written = _store._WRITTEN.unpack(os.pread(descriptor, 8, 0))
    one.set("b", b"half")
    os.pwrite(descriptor, _store._WRITTEN.pack(*written), 0)

    assert not other.check(["b"])
    other.set("c", b"third")
    assert (other.get("a"), other.get("c"), other.num_keys()) == (b"first", b"third", 2)


def test_a_full_store_says_so(descriptor: int) -> None:
    """The limit is named, not a place in memory."""
    store = SharedStore(descriptor, 1)
    with pytest.raises(MemoryError, match="store of this world is full: 64 MiB"):
        store.set("a", b"x" * (_store.CAPACITY + 1))
    store.set("a", b"fits")
    assert store.get("a") == b"fits"
