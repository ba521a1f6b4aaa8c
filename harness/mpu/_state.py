"""Which world this process is a rank of, and the groups made in it so far.

One process holds at most one world. The functions of `_parallel_state` are permanent objects that
read this module, so code that imported them by name sees every later world too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.layout import Layout, canonical_name

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    MakeGroup = Callable[[str, tuple[int, ...]], ProcessGroup]
else:
    MakeGroup = Callable

# Megatron keeps second communicators over the ranks of some groups; here they are groups of their
# own as well, since a call on one does not pair with a call on the other.
TWIN_SUFFIXES = ("-gloo", "-ag")


@dataclass
class ParallelState:
    """What `initialize_model_parallel` sets up: the grid, this rank's place, its groups."""

    layout: Layout
    rank: int
    make_group: MakeGroup
    # Groups of a second initialisation must not meet those of the first in the rendezvous store.
    generation: int = 1
    gloo_groups: bool = field(init=False)
    all_gather_group: bool = field(init=False)
    # The embedding groups, which user code may choose.
    _own: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _groups: dict[str, ProcessGroup] = field(default_factory=dict)
    # Two threads of a rank may ask for one group at the same time.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.set_options()

    def set_options(
        self,
        *,
        embedding_ranks: tuple[int, ...] | None = None,
        position_embedding_ranks: tuple[int, ...] | None = None,
        gloo_groups: bool = True,
        all_gather_group: bool = False,
    ) -> None:
        """Set what `initialize_model_parallel` can choose besides the layout."""
        own = {"embd": embedding_ranks, "pos_embd": position_embedding_ranks}
        for name, ranks in own.items():
            chosen = self.layout.group_of(name, self.rank) if ranks is None else ranks
            if self._own.get(name) != chosen:
                self._own[name] = chosen
                self._groups.pop(name, None)
        self.gloo_groups = gloo_groups
        self.all_gather_group = all_gather_group

    def ranks(self, name: str) -> tuple[int, ...]:
        """The ranks of this rank's group of that name; empty when it is in none."""
        if name in self._own:
            return self._own[name]
        for suffix in TWIN_SUFFIXES:
            name = name.removesuffix(suffix)
        return self.layout.group_of(name, self.rank)

    def group(self, name: str) -> ProcessGroup:
        """The live group of that name, made now if this is the first time it is asked for."""
        with self._lock:
            if name not in self._groups:
                unique = name if self.generation == 1 else f"{name}#{self.generation}"
                self._groups[name] = self.make_group(unique, self.ranks(name))
            return self._groups[name]


# The world the launcher put this process in; it outlives `destroy_model_parallel`.
_world: ParallelState | None = None
# The layout the launcher asked for, which user code may replace by another.
_home: Layout | None = None
# The state in force; None outside a world and after `destroy_model_parallel`.
_state: ParallelState | None = None
# What the set_* functions set, by the name of the quantity. Like Megatron's they work outside a
# world as well.
overrides: dict[str, int | None] = {}


def activate(layout: Layout, rank: int, make_group: MakeGroup) -> None:
    """Make this process rank `rank` of the world that `layout` describes.

    `make_group(name, ranks)` is called once per group, when it is first asked for, and only for
    groups that contain `rank`. It must neither block nor need the other ranks. Groups made after
    user code destroyed and initialised the parallel state anew are called "dp-cp#2" and so on: the
    pair (name, ranks) is unique in a world and the same on all its ranks.
    """
    global _world, _state, _home
    if _world is not None:
        raise RuntimeError(
            f"this process is already rank {_world.rank} of {_world.layout}; "
            "call deactivate() before activate()"
        )
    overrides.clear()
    _home = layout
    _world = _state = ParallelState(layout, int(rank), make_group)


def deactivate() -> None:
    """Forget the world, its groups and everything that set_* functions set."""
    global _world, _state
    _world = _state = None
    overrides.clear()


def reset() -> None:
    """Undo what one function did to the parallel state, before the next one runs in the world.

    Groups stay alive unless it destroyed the state or set up another layout. All ranks have to have
    done the same, as Megatron itself demands; else the groups made from now on have other names.
    """
    overrides.clear()
    if _world is None or _home is None:
        return
    if _state is None or _state.layout != _home:
        reinitialize(_home)
        return
    _state.set_options()


def current() -> ParallelState | None:
    """The parallel state in force, or None when it is not initialised."""
    return _state


def world() -> ParallelState | None:
    """The newest state of the world this process is in, destroyed or not."""
    return _world


def destroy() -> None:
    """Forget the groups and the overrides; the process stays in its world."""
    global _state
    _state = None
    overrides.clear()


def reinitialize(layout: Layout) -> ParallelState:
    """Set up the parallel state anew after `destroy`, perhaps with another layout."""
    global _world, _state
    assert _world is not None
    _world = _state = ParallelState(
        layout, _world.rank, _world.make_group, generation=_world.generation + 1
    )
    return _state


def torch_distributed_is_initialized() -> bool:
    """Whether torch.distributed is in use in this process; does not import it."""
    distributed = sys.modules.get("torch.distributed")
    # A module that is still being imported has no functions yet.
    if distributed is None or not hasattr(distributed, "is_initialized"):
        return False
    return bool(distributed.is_available() and distributed.is_initialized())


def live_group(name: str, *, rank: int | None = None) -> ProcessGroup:
    """The process group of that name of the running world, as `rank` of it sees it.

    Raises RuntimeError when this process is not a rank of a running world, is another rank, or is
    in no group of that name; ValueError for a name that is no group's.
    """
    name = canonical_name(name)
    if _world is None:
        raise RuntimeError(
            f'there is no live group "{name}" in this process: it is not a rank of a running world; '
            "ask for groups inside the function that World.run runs"
        )
    if rank is not None and rank != _world.rank:
        raise RuntimeError(
            f'group "{name}" of rank {rank} does not live in this process, which is rank '
            f"{_world.rank}; use the rank that this process' own function was called with"
        )
    if _state is None:
        raise RuntimeError(
            f'there is no live group "{name}": destroy_model_parallel() was called; '
            "call initialize_model_parallel() first"
        )
    if not _state.ranks(name):
        raise RuntimeError(
            f'rank {_state.rank} is in no group "{name}"; the groups of that name are '
            f"{[list(ranks) for ranks in _state.layout.groups(name)]}"
        )
    return _state.group(name)
