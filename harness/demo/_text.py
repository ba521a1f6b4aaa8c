"""The demo as text, for someone who has never seen the project."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from harness.demo._figures import SEQUENCES, Figures, Kl, Skip, Whitening

WIDTH = 100

_WRAPPER = textwrap.TextWrapper(
    WIDTH - 5,
    subsequent_indent="    ",
    drop_whitespace=True,
    break_long_words=False,
    break_on_hyphens=False,
)

_FOLDER = re.compile(r"\S*[/\\]harness[/\\]demo[/\\]")
"""Where the code of the demo is installed, of which only the end matters to a reader."""

INTRODUCTION = """\
Three faults of distributed training code that a test in one process does not see. Each is run now
on real ranks: processes on this machine's CPU, with gloo groups between them.
"""


def render(figures: Figures) -> str:
    """All three parts."""
    parts = [_whitening(figures.whitening), _skip(figures.skip), _kl(figures.kl)]
    return "\n\n".join(parts)


def _whitening(white: Whitening) -> str:
    lines = [
        "1. Whitening over the wrong group",
        "",
        *_paragraph(
            "Advantages are whitened: the mean of all tokens is taken off, and they are divided by "
            "the standard deviation. Under context parallelism (cp) the tokens of one sequence lie "
            "on several ranks, so the sums must go over the data-parallel group with cp. "
            "mpu.get_data_parallel_group() leaves cp out unless it is told otherwise."
        ),
        "",
        _cells("sequence", [str(i) for i in range(len(SEQUENCES))]),
        _cells("response tokens", [str(response) for _, response, _ in SEQUENCES]),
        _cells("reward", [f"{reward:+.1f}" for _, _, reward in SEQUENCES]),
        "",
        "   advantage of each sequence, as each rank computes it",
        f"{'':14}{'wrong: get_data_parallel_group()':40}right: …(with_context_parallel=True)",
        f"   cp  rank   {_heads():40}{_heads()}".rstrip(),
    ]
    for cp, table in white.wrong.items():
        for rank, row in enumerate(table):
            owned = white.tokens[cp][rank]
            wrong, right = (_row(r, owned) for r in (row, white.right[cp][rank]))
            lines.append(f"   {cp if rank == 0 else '':>2}  {rank:>4}   {wrong:40}{right}".rstrip())
    if any(n == 0 for table in white.tokens.values() for row in table for n in row):
        lines.append("   ° this rank owns no token of this sequence; it would give one this value")
    lines += [
        "",
        *_paragraph(
            "With cp=1 the wrong group gives the right numbers, so a test on one rank passes. With "
            "cp=2 the two halves of a sequence are trained on different advantages. Nothing raises."
        ),
        "",
        "   The law `same_value_on_every_rank` of harness.suites.whitening says:",
        *_quoted(white.said),
    ]
    return "\n".join(lines)


def _skip(skip: Skip | None) -> str:
    lines = [
        "2. A collective that one rank skips",
        "",
        *_paragraph(
            "`if mask.numel() > 0: all_reduce(...)` looks harmless. But a short response can lie "
            "wholly on other ranks: a rank that owns no token skips the call, and the others wait "
            "in it, or pair up with a later call and go on with mixed-up numbers."
        ),
    ]
    if skip is None:
        return "\n".join([*lines, "", "   It was not caught."])
    tokens = ", ".join(f"rank {rank}: {n}" for rank, n in enumerate(skip.tokens))
    lines += [
        "",
        f"   response tokens at dp=2, cp=2: {tokens}",
        "",
        "   The world says:",
        *_quoted(skip.report),
        "",
        f"   from the last rank blocking to this verdict: {skip.seconds_to_verdict * 1000:10.1f} ms",
        f"   a test that joins its ranks with a timeout:  {skip.bounded_join_seconds:10.0f} s,"
        " and it names no rank and no line",
    ]
    return "\n".join(lines)


def _kl(kl: Kl) -> str:
    lines = [
        "3. A logged KL that is overwritten",
        "",
        *_paragraph(
            "The KL to the reference policy is put into the log; then the token rewards "
            "(−kl_coef × KL, plus the reward on the last token) are made out of the same tensor "
            "with *= and +=. The training is right; the KL curve is not a KL."
        ),
        "",
        _cells("token", [str(i) for i in range(len(kl.before))]),
        _cells("KL when logged", _figures(kl.before)),
        _cells(f"when read, kl_coef={kl.kl_coef:g}", _figures(kl.after)),
        _cells("when read, kl_coef=0", _figures(kl.after_at_kl_coef_0)),
        "",
        "   The law `logged_kl_is_the_kl` of harness.suites.kl_aliasing says:",
        *_quoted(kl.said),
    ]
    return "\n".join(lines)


def _heads() -> str:
    return " ".join(f"{f'seq {i}':>9} " for i in range(len(SEQUENCES)))


def _row(values: Sequence[float], owned: Sequence[int]) -> str:
    cells = zip(values, owned, strict=True)
    return " ".join(f"{value:+9.6f}{' ' if n else '°'}" for value, n in cells)


def _cells(label: str, cells: Sequence[str]) -> str:
    return f"   {label:24}" + "".join(f"{cell:>12}" for cell in cells)


def _figures(values: Sequence[float]) -> list[str]:
    return [f"{value:+.3f}" for value in values]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - 3, initial_indent="   ", subsequent_indent="   ")


def _quoted(text: str) -> list[str]:
    shown = _FOLDER.sub("harness/demo/", text)
    return [
        f"   | {part}".rstrip()
        for line in shown.splitlines()
        for part in _WRAPPER.wrap(line) or [""]
    ]
