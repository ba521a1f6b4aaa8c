"""The rendezvous of a world: a key-value store in memory that its ranks share.

`FileStore` looks for a key every 10 ms, once or twice for each group that ranks connect; this one
every fraction of a millisecond, and it needs no file that has to be removed. A log of writes, each
of them whole or not there at all, whatever becomes of the rank that makes it:

    bytes written (8) | length of key (4), length of value (4), key, value | …

A value's length of -1 stands for the removal of the key.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from torch._C._distributed_c10d import Store
from torch.distributed import DistStoreError

CAPACITY = 64 << 20
"""Bytes of address space; memory is taken as it is written."""

_WRITTEN = struct.Struct("<Q")
_LENGTHS = struct.Struct("<Ii")
_REMOVED = -1

_NAP = 0.0002
_NAP_PER_RANK = 0.00005


def prepare(descriptor: int) -> None:
    """Make an empty anonymous file ready to be the store of a world."""
    os.ftruncate(descriptor, CAPACITY)


class SharedStore(Store):
    """A `torch.distributed.Store` over the shared memory behind ``descriptor``.

    Whoever hands it to torch has to keep it alive. Raises `torch.distributed.DistStoreError` where a key does not come in time, and MemoryError
    where all values together are larger than `CAPACITY`.
    """

    def __init__(self, descriptor: int, world_size: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, CAPACITY)
        self._values: dict[str, bytes] = {}
        self._read = _WRITTEN.size
        # Many ranks that look often would take the time of those that they wait for.
        self._nap = _NAP + _NAP_PER_RANK * world_size
        self._lock = threading.RLock()

    # -- what torch calls -------------------------------------------------------------------

    def set(self, key: str, value: bytes | str) -> None:
        """Write a value."""
        with self._locked(fcntl.LOCK_EX):
            self._append(key, value.encode() if isinstance(value, str) else bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        self._await([key])
        return self._values[key]

    def add(self, key: str, value: int) -> int:
        """Add to a number, which begins at 0; the sum."""
        with self._locked(fcntl.LOCK_EX):
            total = int(self._values.get(key, b"0")) + value
            self._append(key, b"%d" % total)
        return total

    def append(self, key: str, value: bytes | str) -> None:
        """Write behind what the value has been so far."""
        with self._locked(fcntl.LOCK_EX):
            more = value.encode() if isinstance(value, str) else bytes(value)
            self._append(key, self._values.get(key, b"") + more)

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        """Write ``desired`` if the value is ``expected``, or absent and that is empty."""
        old = expected.encode() if isinstance(expected, str) else bytes(expected)
        new = desired.encode() if isinstance(desired, str) else bytes(desired)
        with self._locked(fcntl.LOCK_EX):
            now = self._values.get(key)
            if now is None and old:
                return old
            if now is None or now == old:
                self._append(key, new)
                return new
            return now

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        with self._lock:
            self._look()
            return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return once all keys are there."""
        self._await(keys, timeout)

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it was there."""
        with self._locked(fcntl.LOCK_EX):
            there = key in self._values
            if there:
                self._append(key, None)
        return there

    def num_keys(self) -> int:
        """How many keys there are."""
        with self._lock:
            self._look()
            return len(self._values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, once all are there."""
        self._await(keys)
        return [self._values[key] for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        """Write several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether ``append``, ``multi_get`` and ``multi_set`` are there."""
        return True

    # Under these names torch's C++ classes ask for them.
    deleteKey, getNumKeys = delete_key, num_keys

    # -- the log ----------------------------------------------------------------------------

    def _await(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        if timeout is None:
            timeout = self.timeout  # type: ignore[attr-defined] # the stubs of torch lack it
        until = time.monotonic() + timeout.total_seconds()
        while not self.check(keys):
            if time.monotonic() > until:
                missing = [key for key in keys if key not in self._values]
                raise DistStoreError(
                    f"wait timeout after {timeout.total_seconds() * 1000:.0f}ms, keys: "
                    + ", ".join(missing)
                )
            time.sleep(self._nap)

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        # The lock of a file excludes other processes alone, and ends with the rank that holds it.
        with self._lock:
            fcntl.lockf(self._descriptor, how)
            try:
                self._catch_up()
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _look(self) -> None:
        if self._end() > self._read:
            with self._locked(fcntl.LOCK_SH):
                pass

    def _end(self) -> int:
        end: int = _WRITTEN.unpack_from(self._memory, 0)[0]
        return end

    def _append(self, key: str, value: bytes | None) -> None:
        name, data = key.encode(), value or b""
        start = self._read + _LENGTHS.size
        end = start + len(name) + len(data)
        if end > CAPACITY:
            raise MemoryError(
                f"the store of this world is full: {CAPACITY >> 20} MiB of keys and values"
            )
        length = _REMOVED if value is None else len(data)
        _LENGTHS.pack_into(self._memory, self._read, len(name), length)
        self._memory[start:end] = name + data
        _WRITTEN.pack_into(self._memory, 0, end)
        self._catch_up()

    def _catch_up(self) -> None:
        end = self._end()
        while self._read < end:
            length, size = _LENGTHS.unpack_from(self._memory, self._read)
            start = self._read + _LENGTHS.size
            middle = start + length
            key = self._memory[start:middle].decode()
            self._read = middle + max(size, 0)
            if size == _REMOVED:
                self._values.pop(key, None)
            else:
                self._values[key] = self._memory[middle : self._read]
