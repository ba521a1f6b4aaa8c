"""Point-to-point calls on a group that connects at its first use go over the default group.

gloo connects a pair of ranks inside the call that first needs it, so a send on such a group would
block as it is issued until the peer uses the group too: correct programs would hang. The default
group is connected from the start. A tag of the group's own keeps its messages apart there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from harness.record._operations import Reader

_TAGS = 1 << 20
"""User tags below this can be kept apart by group; others take no detour, on either side."""

_MOST = (1 << 31) // _TAGS


class Detour:
    """Knows the groups whose messages take the detour, each by a number that all members give it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sources: dict[int, tuple[weakref.ref[Any], tuple[int, ...]]] = {}

    def add(self, group_name: str, number: int) -> None:
        """Messages of this group take the detour from now on; ``number`` is 0 or more."""
        if number + 1 < _MOST:
            self._numbers[group_name] = number + 1

    def arguments(
        self,
        read: Reader,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        ranks: tuple[int, ...],
        key: str,
    ) -> tuple[Any, ...] | None:
        """The call's arguments on the default group; None where it takes no detour."""
        number = self._numbers.get(key)
        tag = read("tag", args, kwargs)
        if number is None or not 0 <= tag < _TAGS or dist.group.WORLD is None:
            return None
        by: dict[str, Any] = {
            "process_group": dist.group.WORLD.boxed(),
            "tag": number * _TAGS + tag,
        }
        if read.operation.peer:
            place = read(read.operation.peer, args, kwargs)
            if not 0 <= place < len(ranks):
                return None  # torch says what is wrong with it
            by[read.operation.peer] = ranks[place]
        return read.replaced(args, kwargs, by)

    def received(self, work: Any, ranks: tuple[int, ...]) -> None:
        """A receive from any source took the detour: its source is a rank of the world."""
        key = id(work)

        def forget(_: Any) -> None:
            self._sources.pop(key, None)

        self._sources[key] = weakref.ref(work, forget), ranks

    def source_rank(self, real: Callable[[Any], int]) -> Callable[[Any], int]:
        """`Work._source_rank` that gives the place in the group, as its caller expects."""

        def _source_rank(work: Any) -> int:
            found = real(work)
            entry = self._sources.get(id(work))
            if entry is None or entry[0]() is not work:
                return found
            return entry[1].index(found)

        return _source_rank
