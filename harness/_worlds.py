"""What the fixtures hand out: a maker of worlds that closes them all at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from harness._errors import WorldError
from harness.world import World


class WorldFactory:
    """``world(dp=2, cp=2)`` starts a `World`; options as for `World`.

    With ``shared`` (the fixtures of wider scope) the same arguments give the same live world, until
    a run on it has failed or has left something behind.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._worlds: list[tuple[tuple[Any, ...], World]] = []

    def __call__(self, dp: int = 1, cp: int = 1, **options: Any) -> World:
        """Start a world of dp × cp (× ``tp`` × ``pp``) ranks."""
        __tracebackhide__ = True
        key = (dp, cp, sorted(options.items(), key=lambda item: item[0]))
        for known, made in list(self._worlds):
            if self._shared and known == key and made.alive:
                if not made._dirt:
                    made._renew()
                    return made
                made._tell_dirt()
                made.close()
        made = World(dp, cp, **options)
        if self._shared:
            made._share()
        self._worlds.append((key, made))
        made.start()
        return made

    def __repr__(self) -> str:
        return "<starts worlds>"

    def __enter__(self) -> WorldFactory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        trouble: list[str] = []
        for _, made in self._worlds:
            try:
                made.close()
            except WorldError as late:
                trouble.append(str(late))
        self._worlds.clear()
        if trouble:
            raise WorldError("\n".join(trouble))
