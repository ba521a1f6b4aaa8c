"""What a suite needs to know of a world: its axes, its name, and how to start one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

AXES = ("dp", "cp", "tp", "pp", "ep")

WorldSpec = tuple[int, int] | Mapping[str, int]
"""A world to run in: ``(dp, cp)``, or a mapping such as ``{"dp": 2, "cp": 2, "tp": 2}``."""


class RunsOnRanks(Protocol):
    """The one thing a suite asks of a world."""

    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> list[Any]:
        """Run ``fn(rank, *args, **kwargs)`` on every rank; return the results in rank order."""


WorldFactory = Callable[..., AbstractContextManager[Any]]
"""Called as ``factory(dp=2, cp=2)``; entering the result gives an object with ``run``."""


@dataclass(frozen=True)
class Axes:
    """The sizes of a world's axes."""

    dp: int = 1
    cp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1

    @classmethod
    def of(cls, spec: Any) -> Axes:
        """Read a world from ``(dp, cp)`` or from a mapping of axis names; refuse anything else."""
        if isinstance(spec, Axes):
            return spec
        if isinstance(spec, Mapping):
            unknown = [axis for axis in spec if axis not in AXES]
            if unknown:
                raise ValueError(
                    f"unknown axis {unknown[0]!r} in world {dict(spec)}; the axes are "
                    + ", ".join(AXES)
                )
            sizes = dict(spec)
        elif isinstance(spec, Sequence) and not isinstance(spec, str) and len(spec) == 2:
            sizes = {"dp": spec[0], "cp": spec[1]}
        else:
            raise TypeError(
                f"a world is (dp, cp) or a mapping such as {{'dp': 2, 'cp': 2, 'tp': 2}}, "
                f"not {spec!r}"
            )
        for axis, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{axis}={size!r} in world {spec!r}: an axis is an integer ≥ 1")
        return cls(**sizes)

    @property
    def given(self) -> dict[str, int]:
        """``dp`` and ``cp`` always, the other axes where they are more than one."""
        sizes = {axis: int(getattr(self, axis)) for axis in AXES}
        return {axis: n for axis, n in sizes.items() if axis in ("dp", "cp") or n > 1}

    @property
    def id(self) -> str:
        """The world's part of a test id, for example ``dp2-cp2``."""
        return "-".join(f"{axis}{size}" for axis, size in self.given.items())

    @property
    def alone(self) -> bool:
        """Whether this is a world of one rank."""
        return self == Axes()

    @property
    def shards(self) -> int:
        """How many ranks hold different tokens."""
        return self.dp * self.cp

    def __str__(self) -> str:
        return " ".join(f"{axis}={size}" for axis, size in self.given.items())


def default_factory() -> WorldFactory:
    """Return ``harness.World``, imported only now: laws can be listed without it."""
    import harness

    factory: WorldFactory = harness.World
    return factory
