"""What a rank needs to know to start: one plain value, the same for all ranks of a world."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.explain._trace import TracePlan
from harness.layout import Layout


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """How the ranks of a world start.

    ``timeout`` (seconds) bounds every process group. ``env`` is the whole environment of a rank,
    but for what names the rank itself. ``log_level`` is that of the root logger; ``open_files`` how
    many files a rank may have open. With a ``trace`` one of the runs is followed step by step.
    ``debug_rank`` is the rank that a debugger may open on.
    """

    layout: Layout
    timeout: float
    env: dict[str, str]
    path: tuple[str, ...]
    cwd: str
    seed: int = 0
    threads: int = 1
    hash_seed: bool = False
    record: bool = True
    shadow_megatron: bool = False
    stub_modules: tuple[str, ...] = ()
    log_level: int | None = None
    open_files: int = 0
    verbosity: int = 0
    debug_rank: int | None = None
    trace: TracePlan | None = None
    argv: tuple[str, ...] = field(default=("rank",))
