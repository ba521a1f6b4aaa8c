"""Which law kills which mutant. ``python -m tests.suites.kill_matrix --write`` renews the page."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from harness._worlds import WorldFactory
from harness.suites import kl_aliasing, whitening

from . import advantage_functions, whiten_functions
from .pool import WorldPool

PAGE = Path(__file__).parents[2] / "docs" / "kill_matrix.md"

WHITENING_WORLDS: list[Any] = [(2, 2), {"dp": 1, "cp": 2, "tp": 2}]
ABOUT_REPLICAS = (
    "same_value_on_every_rank",
    "same_for_every_factorization",
    "equals_float64_reference",
)
"""The laws that tensor-parallel replicas can break; the others are asked in the first world only."""

KL_WORLDS: list[Any] = [(1, 1), (1, 2)]
REFERENCE = "(the reference)"

Kills = dict[str, list[str]]
"""For each mutant the laws that it breaks in at least one world, in the order of the laws."""


class Pickled:
    """A function that is pickled once, however often it is sent to ranks."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._payload = cloudpickle.dumps(fn)

    def __call__(self, *args: Any) -> Any:
        """Call the function on a rank."""
        return pickle.loads(self._payload)(*args)


cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _killers(
    laws: Mapping[str, str], worlds: Sequence[Any], broken: Callable[[str, Any], bool]
) -> list[str]:
    # The next world is not asked once a law is broken: some of these mutants end their world.
    return [law for law in laws if any(broken(law, world) for world in worlds)]


def whitening_kills(pool: WorldPool) -> Kills:
    """Run every whitening mutant, and the reference, against every law."""
    subjects = [whiten_functions.Mutant(REFERENCE, whiten_functions.whiten)]
    kills: Kills = {}
    for subject in [*subjects, *whiten_functions.MUTANTS]:
        fn = Pickled(subject.fn)

        def broken(
            law: str, world: Any, fn: Pickled = fn, s: whiten_functions.Mutant = subject
        ) -> bool:
            if world != WHITENING_WORLDS[0] and law not in ABOUT_REPLICAS:
                return False
            return bool(
                whitening.check_all(fn, [world], laws=[law], world_factory=pool, **s.traits)
            )

        kills[subject.name] = _killers(whitening.laws(), WHITENING_WORLDS, broken)
    return kills


def kl_kills(pool: WorldPool) -> Kills:
    """Run every KL mutant with ppo, and the reference with every estimator, against every law."""
    kills: Kills = {}
    reference = advantage_functions.KlMutant(REFERENCE, advantage_functions.compute)
    for subject in [reference, *advantage_functions.KL_MUTANTS]:
        fn = Pickled(subject.fn)
        estimators = kl_aliasing.ESTIMATORS if subject is reference else ("ppo",)

        def broken(
            law: str,
            world: Any,
            fn: Pickled = fn,
            s: advantage_functions.KlMutant = subject,
            estimators: Sequence[str] = estimators,
        ) -> bool:
            return bool(
                kl_aliasing.check_all(
                    fn, estimators, [world], laws=[law], world_factory=pool, **s.declared
                )
            )

        kills[subject.name] = _killers(kl_aliasing.laws(), KL_WORLDS, broken)
    return kills


def sole_killers(kills: Kills, laws: Sequence[str]) -> dict[str, list[str]]:
    """For each law the mutants that no other law kills."""
    return {law: [name for name, by in kills.items() if by == [law]] for law in laws}


def table(kills: Kills, laws: Sequence[str]) -> str:
    """Lay the kills out as Markdown, one row for each mutant and one numbered column for each law."""
    head = "| mutant | " + " | ".join(str(i + 1) for i in range(len(laws))) + " |"
    rule = "|---|" + ":-:|" * len(laws)
    rows = []
    for name, by in kills.items():
        sign = "●" if len(by) == 1 else "×"
        rows.append(f"| {name} | " + " | ".join(sign if law in by else " " for law in laws) + " |")
    return "\n".join([head, rule, *rows])


def page(whitening_kills: Kills, kl_kills: Kills) -> str:
    """Write the whole page."""
    parts = [
        "# Kill matrix",
        "The laws of `harness.suites` are tested by mutants: wrong functions with one known mistake "
        "each (`tests/suites/whiten_functions.py`, `tests/suites/advantage_functions.py`). × marks "
        "a law that a mutant breaks, ● a law that is the only one to catch it. The reference "
        "breaks none, each mutant breaks at least one, and each law has a mutant that only it "
        "catches, so none of them could be left out.",
        "A test computes this page and compares it with the file; "
        "`python -m tests.suites.kill_matrix --write` renews it.",
    ]
    replicas = " (the second for the laws that replicas can break, 1 to 3)"
    for title, kills, laws, worlds, note in (
        ("Whitening", whitening_kills, whitening.laws(), WHITENING_WORLDS, replicas),
        ("Logged KL", kl_kills, kl_aliasing.laws(), KL_WORLDS, ""),
    ):
        shapes = ", ".join(
            " ".join(f"{axis}={n}" for axis, n in world.items())
            if isinstance(world, dict)
            else f"dp={world[0]} cp={world[1]}"
            for world in worlds
        )
        parts += [
            f"## {title}",
            f"Worlds: {shapes}{note}.",
            "\n".join(
                f"{i}. `{name}` – {doc.split(chr(10) * 2)[0].replace(chr(10), ' ')}"
                for i, (name, doc) in enumerate(laws.items(), 1)
            ),
            table(kills, list(laws)),
        ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Compute the page; print it, or write it with ``--write``."""
    with WorldFactory(shared=True) as make:
        pool = WorldPool(make)
        text = page(whitening_kills(pool), kl_kills(pool))
    if "--write" in arguments:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
