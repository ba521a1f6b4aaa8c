"""Which rank of a world is in which group, in Megatron's order: arithmetic only, no torch.

Megatron lays the same ranks out on two grids. The dense grid has the axes tp, cp, dp and pp; the
expert grid has etp (tensor parallelism of the experts), ep, edp (what is left over) and pp. The
order names the axes from the fastest to the slowest; for the default one

    rank = tp + TP * (cp + CP * (dp + DP * pp)) = etp + ETP * (ep + EP * (edp + EDP * pp))

A group is named by the axes along which its ranks differ: "dp-cp" holds the ranks that share their
tp and their pp.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

DEFAULT_ORDER = "tp-cp-ep-dp-pp"

_ORDER_AXES = ("tp", "cp", "ep", "dp", "pp")
_DENSE_AXES = ("dp", "cp", "tp", "pp")
_EXPERT_AXES = ("etp", "ep", "edp", "pp")
# What an axis of the expert grid is called in an order string.
_IN_ORDER = {"etp": "tp", "edp": "dp"}

# Group name -> axes. The order of the names is name_of's order of preference: one axis before
# several, the dense grid before the expert one.
_AXES_OF_GROUP: dict[str, tuple[str, ...]] = {
    "dp": ("dp",),
    "cp": ("cp",),
    "tp": ("tp",),
    "pp": ("pp",),
    "dp-cp": ("dp", "cp"),
    "tp-cp": ("tp", "cp"),
    "tp-dp": ("tp", "dp"),
    "tp-pp": ("tp", "pp"),
    "tp-dp-cp": ("tp", "dp", "cp"),
    "ep": ("ep",),
    "etp": ("etp",),
    "edp": ("edp",),
    "etp-ep": ("etp", "ep"),
    "etp-ep-pp": ("etp", "ep", "pp"),
}
_EMBEDDING = "embd"
_POSITION_EMBEDDING = "pos_embd"
# All ranks of one distributed-optimizer instance, which is the world as there is one instance.
_INTRA_DIST_OPT = "intra_dist_opt"
_GROUP_NAMES = (*_AXES_OF_GROUP, _EMBEDDING, _POSITION_EMBEDDING, _INTRA_DIST_OPT)
# "cp-dp" means "dp-cp", and Megatron itself says "tp-ep" where the expert grid is understood.
_BY_AXES = {frozenset(axes): name for name, axes in _AXES_OF_GROUP.items()}
_BY_AXES[frozenset(("tp", "ep"))] = "etp-ep"
_BY_AXES[frozenset(("tp", "ep", "pp"))] = "etp-ep-pp"


@dataclass(frozen=True, init=False)
class Layout:
    """The sizes of the parallel axes of one world, and every group they define.

    The world has `dp*cp*tp*pp` ranks. `ep` and `etp` do not add ranks: they divide the ranks of one
    pipeline stage anew, for the experts. `etp` is `tp` unless given, as in Megatron.

    Raises TypeError or ValueError, with the sum written out, for a shape that Megatron refuses.
    """

    dp: int
    cp: int
    tp: int
    pp: int
    ep: int
    etp: int
    order: str

    def __init__(
        self,
        dp: int = 1,
        cp: int = 1,
        *,
        tp: int = 1,
        pp: int = 1,
        ep: int = 1,
        etp: int | None = None,
        order: str = DEFAULT_ORDER,
    ) -> None:
        given = {
            "dp": dp,
            "cp": cp,
            "tp": tp,
            "pp": pp,
            "ep": ep,
            "etp": tp if etp is None else etp,
        }
        for name, value in given.items():
            # Frozen: a Layout is a dictionary key and is shared by all ranks.
            object.__setattr__(self, name, positive_int(name, value))
        object.__setattr__(self, "order", _checked_order(order))
        self._check_expert_grid(etp_is_given=etp is not None)
        self._check_pipelines()

    @property
    def world_size(self) -> int:
        """The number of ranks, `dp*cp*tp*pp`."""
        return self.dp * self.cp * self.tp * self.pp

    @property
    def edp(self) -> int:
        """The size of the expert grid's data-parallel axis, `world_size / (etp*ep*pp)`."""
        return self.world_size // (self.etp * self.ep * self.pp)

    def coordinates(self, rank: int) -> dict[str, int]:
        """The position of a rank on each axis: dp, cp, tp, pp, ep, etp and edp."""
        self._check_rank(rank)
        return dict(_coordinates(self)[rank])

    def groups(self, name: str) -> tuple[tuple[int, ...], ...]:
        """All groups of that name, each with its ranks ascending, in order of their first rank."""
        return _groups(self, canonical_name(name))

    def group_of(self, name: str, rank: int) -> tuple[int, ...]:
        """The ranks of the group of that name that `rank` is in.

        Empty when it is in none, which only happens for "embd" and "pos_embd".
        """
        self._check_rank(rank)
        return _group_of_rank(self, canonical_name(name)).get(rank, ())

    def group_names(self) -> tuple[str, ...]:
        """The names that `groups` and `group_of` know."""
        return _GROUP_NAMES

    def name_of(self, ranks: Iterable[int]) -> str | None:
        """Megatron's name for a set of ranks, or None when it is none of its groups.

        Where several names fit, the one with the fewest axes wins, and the dense grid's before
        the expert grid's: two ranks that make up a whole world dp=2 are "dp", not "dp-cp".
        """
        members = tuple(sorted(set(ranks)))
        if not members or not 0 <= members[0] < self.world_size:
            return None
        for name in _GROUP_NAMES:
            # The instance group is always the world, so its name would say nothing.
            if name != _INTRA_DIST_OPT and self.group_of(name, members[0]) == members:
                return name
        return None

    def _check_rank(self, rank: int) -> None:
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"rank must be an int, got {rank!r}, which is a {type(rank).__name__}")
        if not 0 <= rank < self.world_size:
            raise ValueError(
                f"rank {int(rank)} is not in this world: its size is {self._world_sum()}, "
                f"so ranks go from 0 to {self.world_size - 1}"
            )

    def _world_sum(self) -> str:
        return f"dp*cp*tp*pp = {self.dp}*{self.cp}*{self.tp}*{self.pp} = {self.world_size}"

    def _check_expert_grid(self, *, etp_is_given: bool) -> None:
        model = self.etp * self.ep * self.pp
        if self.world_size % model == 0:
            return
        per_stage = self.world_size // self.pp
        fits = [str(ep) for ep in range(1, per_stage + 1) if per_stage % (self.etp * ep) == 0]
        default = "" if etp_is_given else f" (etp is tp = {self.tp} unless given)"
        fix = (
            f"with etp={self.etp}, ep can be {', '.join(fits)}"
            if fits
            else f"no ep fits: etp={self.etp} must divide the dp*cp*tp = {per_stage} ranks of a stage"
        )
        raise ValueError(
            f"the expert grid needs a world size that etp*ep*pp = {self.etp}*{self.ep}*{self.pp} "
            f"= {model} divides{default}, but the world size is {self._world_sum()}; {fix}"
        )

    def _check_pipelines(self) -> None:
        """Refuse an order for which the two grids would disagree on the pipeline stages."""
        if self.pp == 1 or self.order.endswith("pp"):
            return
        if self.edp != self.dp:
            raise ValueError(
                f'order "{self.order}" does not end in pp, and then both grids need the same data '
                f"parallelism, but dp = {self.dp} and world size/(etp*ep*pp) = {self.world_size}/"
                f"({self.etp}*{self.ep}*{self.pp}) = {self.edp}; make etp*ep equal to tp*cp = "
                f'{self.tp * self.cp}, or use an order that ends in pp, such as "{DEFAULT_ORDER}"'
            )
        dense = _strides(self.order, _dense_sizes(self))["pp"]
        expert = _strides(self.order, _expert_sizes(self))["pp"]
        if dense != expert:
            raise ValueError(
                f'order "{self.order}" gives two pipelines: on the dense grid consecutive stages are '
                f"{dense} ranks apart (the sizes before pp multiplied), on the expert grid {expert}; "
                f'put pp last, as in "{DEFAULT_ORDER}"'
            )


class Rank(int):
    """A rank of a world: an int that knows where it is.

    What a function run by a world gets as its first argument. Arithmetic on it gives plain ints.
    """

    _layout: Layout

    def __new__(cls, value: int, layout: Layout) -> Rank:
        """Rank `value` of the world that `layout` describes."""
        layout._check_rank(value)
        rank = super().__new__(cls, value)
        rank._layout = layout
        return rank

    @property
    def layout(self) -> Layout:
        """The layout of the world."""
        return self._layout

    @property
    def world_size(self) -> int:
        """The number of ranks in the world."""
        return self._layout.world_size

    @property
    def dp(self) -> int:
        """The position on the data-parallel axis."""
        return self._layout.coordinates(self)["dp"]

    @property
    def cp(self) -> int:
        """The position on the context-parallel axis."""
        return self._layout.coordinates(self)["cp"]

    @property
    def tp(self) -> int:
        """The position on the tensor-parallel axis."""
        return self._layout.coordinates(self)["tp"]

    @property
    def pp(self) -> int:
        """The position on the pipeline-parallel axis: the stage."""
        return self._layout.coordinates(self)["pp"]

    @property
    def ep(self) -> int:
        """The position on the expert-parallel axis."""
        return self._layout.coordinates(self)["ep"]

    def group(self, name: str) -> ProcessGroup:
        """The live process group of that name, such as "dp-cp", that this rank is in.

        Raises RuntimeError in a process that is not this rank of a running world.
        """
        # Imported here: this module is arithmetic and is imported by the plugin.
        from harness.mpu import live_group

        return live_group(name, rank=int(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (int(self), self._layout))


def factorizations(n: int, axes: Sequence[str] = ("dp", "cp")) -> list[tuple[int, ...]]:
    """All ways to write `n` as a product of one size per axis, in ascending order.

    `factorizations(4)` is [(1, 4), (2, 2), (4, 1)]: every (dp, cp) of a world of 4 ranks.
    """
    positive_int("n", n)
    axes = tuple(axes) if not isinstance(axes, str) else (axes,)
    if not axes:
        raise ValueError('axes is empty; name at least one of "dp", "cp", "tp", "pp"')
    for axis in axes:
        if axis in ("ep", "etp", "edp"):
            raise ValueError(
                f'axes contains "{axis}", which is no factor of the world size: the world size is '
                "dp*cp*tp*pp, and the expert axes divide the same ranks anew; pass it to the world"
            )
        if axis not in _DENSE_AXES:
            raise ValueError(f'axes contains {axis!r}; the axes are "dp", "cp", "tp" and "pp"')
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {axes!r} names an axis twice")
    return list(_products(n, len(axes)))


def canonical_name(name: str) -> str:
    """The one spelling of a group name: "cp-dp" is "dp-cp", Megatron's "tp-ep" is "etp-ep"."""
    if name in _GROUP_NAMES:
        return name
    if not isinstance(name, str):
        raise TypeError(f'a group name is a string such as "dp-cp", got {name!r}')
    axes = name.split("-")
    found = _BY_AXES.get(frozenset(axes))
    if found is None or len(set(axes)) != len(axes):
        close = difflib.get_close_matches(name, _GROUP_NAMES, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else "."
        raise ValueError(f'no group is named "{name}"{hint} Groups: {", ".join(_GROUP_NAMES)}')
    return found


def positive_int(name: str, value: object) -> int:
    """`value` as a plain int; TypeError or ValueError, naming the option, unless it is 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} must be an int of at least 1, got {value!r}, which is a {type(value).__name__}"
        )
    if value < 1:
        raise ValueError(
            f"{name} must be an int of at least 1, got {int(value)}; "
            f"{name}=1 means that this kind of parallelism is not used"
        )
    return int(value)


def _checked_order(order: object) -> str:
    if not isinstance(order, str):
        raise TypeError(f'order must be a string such as "{DEFAULT_ORDER}", got {order!r}')
    axes = order.split("-")
    problems = [f'"{axis}" is not an axis' for axis in axes if axis not in _ORDER_AXES]
    problems += [f'"{axis}" is named twice' for axis in _ORDER_AXES if axes.count(axis) > 1]
    problems += [f'"{axis}" is missing' for axis in _ORDER_AXES if axis not in axes]
    if problems:
        raise ValueError(
            f'order "{order}" cannot be used: {", ".join(problems)}; name tp, cp, ep, dp and pp once '
            f'each, joined by "-", fastest first, as in "{DEFAULT_ORDER}"'
        )
    return order


def _dense_sizes(layout: Layout) -> dict[str, int]:
    return {"tp": layout.tp, "cp": layout.cp, "ep": 1, "dp": layout.dp, "pp": layout.pp}


def _expert_sizes(layout: Layout) -> dict[str, int]:
    return {"tp": layout.etp, "cp": 1, "ep": layout.ep, "dp": layout.edp, "pp": layout.pp}


def _strides(order: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """How far apart two ranks are that are neighbours on an axis."""
    axes = order.split("-")
    return {axis: prod(sizes[faster] for faster in axes[:i]) for i, axis in enumerate(axes)}


@lru_cache(maxsize=256)
def _coordinates(layout: Layout) -> tuple[dict[str, int], ...]:
    dense, expert = _dense_sizes(layout), _expert_sizes(layout)
    dense_strides = _strides(layout.order, dense)
    expert_strides = _strides(layout.order, expert)
    table = []
    for rank in range(layout.world_size):
        position = {axis: rank // dense_strides[axis] % dense[axis] for axis in _DENSE_AXES}
        for axis in _EXPERT_AXES:
            in_order = _IN_ORDER.get(axis, axis)
            position[axis] = rank // expert_strides[in_order] % expert[in_order]
        table.append(position)
    return tuple(table)


@lru_cache(maxsize=4096)
def _groups(layout: Layout, name: str) -> tuple[tuple[int, ...], ...]:
    if name == _INTRA_DIST_OPT:
        return (tuple(range(layout.world_size)),)
    if name == _EMBEDDING:
        # The first and the last stage hold a copy of the word embedding.
        return tuple(tuple(dict.fromkeys((ps[0], ps[-1]))) for ps in _groups(layout, "pp"))
    if name == _POSITION_EMBEDDING:
        return tuple((ps[0],) for ps in _groups(layout, "pp"))
    axes = _AXES_OF_GROUP[name]
    grid = _DENSE_AXES if set(axes) <= set(_DENSE_AXES) else _EXPERT_AXES
    shared = [axis for axis in grid if axis not in axes]
    members: dict[tuple[int, ...], list[int]] = {}
    for rank, position in enumerate(_coordinates(layout)):
        members.setdefault(tuple(position[axis] for axis in shared), []).append(rank)
    return tuple(map(tuple, members.values()))


@lru_cache(maxsize=4096)
def _group_of_rank(layout: Layout, name: str) -> dict[int, tuple[int, ...]]:
    return {rank: ranks for ranks in _groups(layout, name) for rank in ranks}


def _products(n: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (n,)
        return
    for first in range(1, n + 1):
        if n % first == 0:
            for rest in _products(n // first, count - 1):
                yield (first, *rest)
