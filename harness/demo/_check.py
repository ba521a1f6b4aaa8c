"""Whether the worlds gave what the demo promises to show."""

from __future__ import annotations

from harness.demo._figures import Figures, Kl, Skip, Table

SAME = 1e-5
"""Two figures that differ by less are the same: they come from sums in another order."""


def problems(figures: Figures) -> list[str]:
    """What is not as it must be, one line each; empty if all is well."""
    return [
        *_right_group(figures.whitening.right),
        *_wrong_group(figures.whitening.wrong),
        *([] if figures.whitening.said else ["the whitening law did not notice the wrong group"]),
        *_skip(figures.skip),
        *_kl(figures.kl),
    ]


def _right_group(tables: dict[int, Table]) -> list[str]:
    rows = [(cp, rank, row) for cp, table in tables.items() for rank, row in enumerate(table)]
    _, _, first = rows[0]
    return [
        f"right group: rank {rank} at cp={cp} gives {row}, and rank 0 at cp=1 gives {first}"
        for cp, rank, row in rows
        if not _same(row, first)
    ]


def _wrong_group(tables: dict[int, Table]) -> list[str]:
    return [
        f"wrong group: all ranks agree at cp={cp}, where they should not"
        for cp, table in tables.items()
        if cp > 1 and all(_same(row, table[0]) for row in table)
    ]


def _skip(skip: Skip | None) -> list[str]:
    if skip is None:
        return ["the guarded all_reduce was not caught"]
    found = []
    if skip.kind != "missing_participant":
        found.append(f"the guarded all_reduce was caught as {skip.kind}: {skip.summary}")
    idle = [rank for rank, tokens in enumerate(skip.tokens) if tokens == 0]
    if idle != [skip.rank]:
        found.append(f"rank {skip.rank} is blamed for the skip, but ranks {idle} own no tokens")
    if not skip.line:
        found.append("the report of the skip names no line")
    if not skip.guard.startswith("if mask.numel() > 0"):
        found.append(f"the guard of the all_reduce was not named, but {skip.guard or 'nothing'}")
    decided = {rank: f"{n > 0}: mask.numel() = {n}" for rank, n in enumerate(skip.tokens)}
    if skip.decided_by != decided:
        found.append(f"the guard is said to have come out as {skip.decided_by}, not {decided}")
    return found


def _kl(kl: Kl) -> list[str]:
    found = []
    if _same(kl.before, kl.after) or _same(kl.before, kl.after_at_kl_coef_0):
        found.append(f"the in-place bug left the logged KL alone: {kl.before}")
    if not kl.said:
        found.append("the KL law did not notice the in-place bug")
    return found


def _same(a: list[float], b: list[float]) -> bool:
    return all(abs(x - y) < SAME for x, y in zip(a, b, strict=True))
