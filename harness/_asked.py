"""What a world was asked for, checked, and the specification that its ranks start with."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from typing import Any

from harness import _environment, _settings
from harness.launch._spec import WorldSpec
from harness.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The arguments of a `World` that its ranks depend on.

    Raises ValueError or TypeError for what cannot be.
    """

    layout: Layout
    threads: int
    env: dict[str, str | None]
    seed: int | None
    hash_seed: bool
    compile: bool
    stub_modules: tuple[str, ...] | None
    shadow_megatron: bool
    record: bool

    def __post_init__(self) -> None:
        if isinstance(self.threads, bool) or not isinstance(self.threads, int):
            raise TypeError(f"threads: a whole number, not {self.threads!r}")
        if self.threads < 1:
            raise ValueError(f"threads: at least 1, not {self.threads!r}")
        given: dict[Any, Any] = dict(self.env)
        for name, value in given.items():
            if not isinstance(name, str) or not isinstance(value, (str, type(None))):
                raise TypeError(
                    f"env: names and values are text (or None, to remove one), not "
                    f"{name!r}: {value!r}; write {name!r}: {str(value)!r}"
                )

    def spec(self, timeout: float) -> WorldSpec:
        """With the settings in force, and groups that wait for ``timeout`` seconds."""
        settings = _settings.current
        stubs = settings.stub_modules if self.stub_modules is None else self.stub_modules
        return WorldSpec(
            layout=self.layout,
            timeout=max(timeout, 1.0),
            env=_environment.of_ranks(settings, self.env, self.threads, self.compile),
            path=tuple(sys.path),
            cwd=os.getcwd(),
            seed=settings.seed if self.seed is None else self.seed,
            threads=self.threads,
            hash_seed=self.hash_seed,
            record=self.record,
            shadow_megatron=self.shadow_megatron,
            stub_modules=stubs,
            log_level=settings.log_level,
            open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            verbosity=settings.verbosity,
            debug_rank=None if settings.console is None else settings.console.rank,
        )
