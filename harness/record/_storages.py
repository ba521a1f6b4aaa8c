"""Numbers for storages, each given once: an address comes again when its memory was freed."""

from __future__ import annotations

from typing import Any

import torch

_MANY = 4096


class Storages:
    """Knows the storages of this rank that are alive by numbers of their own."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._given = 0
        self._limit = _MANY

    def number(self, storage: torch.UntypedStorage) -> int:
        """The storage's number, from 1."""
        key: int = storage._cdata
        number = self._numbers.get(key)
        if number is None:
            # The weak reference keeps the address from being given to another storage.
            storage._weak_ref()
            self._given += 1
            number = self._numbers[key] = self._given
            if len(self._numbers) > self._limit:
                self._forget()
        return number

    def _forget(self) -> None:
        kind: Any = torch.UntypedStorage
        for key in [key for key in self._numbers if kind._expired(key)]:
            del self._numbers[key]
            kind._free_weak_ref(key)
        self._limit = max(_MANY, 2 * len(self._numbers))
