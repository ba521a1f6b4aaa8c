"""A law, a collection of laws, and how their names are looked up."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

S = TypeVar("S")

Check = Callable[[], None]


@dataclass(frozen=True)
class Law(Generic[S]):
    """One law: a name, what it says, how to check it, and when it has nothing to say."""

    name: str
    check: Callable[[S], None]
    why_not: Callable[[S], str | None]
    """Returns why the law does not apply to this function in this world, or None if it does."""

    @property
    def doc(self) -> str:
        """What the law says and the bug it catches."""
        return inspect.getdoc(self.check) or ""

    @property
    def statement(self) -> str:
        """The law in one sentence."""
        return self.doc.split("\n\n", 1)[0].replace("\n", " ")


def _always(_: Any) -> str | None:
    return None


class Laws(Generic[S]):
    """The laws of one suite, in the order in which they are listed and run."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self._laws: dict[str, Law[S]] = {}

    def law(
        self, why_not: Callable[[S], str | None] = _always
    ) -> Callable[[Callable[[S], None]], Callable[[S], None]]:
        """Register a function as a law under its own name."""

        def register(check: Callable[[S], None]) -> Callable[[S], None]:
            self._laws[check.__name__] = Law(check.__name__, check, why_not)
            return check

        return register

    def __iter__(self) -> Iterator[Law[S]]:
        return iter(self._laws.values())

    def docs(self) -> dict[str, str]:
        """Every law's name with its docstring."""
        return {law.name: law.doc for law in self}

    def get(self, name: str) -> Law[S]:
        """Look a law up; an unknown name is a ValueError that lists the known ones."""
        if name not in self._laws:
            raise ValueError(unknown("law", name, self._laws, self.suite))
        return self._laws[name]

    def choose(self, names: Iterable[str] | None) -> list[Law[S]]:
        """Return the named laws, or all of them."""
        if isinstance(names, str):
            raise TypeError(f"laws={names!r}: pass a list of names, such as laws=[{names!r}]")
        return list(self) if names is None else [self.get(name) for name in names]

    def verify(self, name: str, session: S) -> None:
        """Check one law; a law that has nothing to say of this function here is a ValueError."""
        __tracebackhide__ = True
        law = self.get(name)
        reason = law.why_not(session)
        if reason is not None:
            raise ValueError(f"{self.suite} law {name} does not apply here: {reason}")
        self.run(law, session)

    def run(self, law: Law[S], session: S) -> None:
        """Check a law that applies; its statement is added to whatever it raises."""
        __tracebackhide__ = True
        try:
            law.check(session)
        except AssertionError as error:
            # Whoever wrote the world may have noted things of its own; ours comes last.
            error.add_note(f"{self.suite} law {law.name}: {law.statement}")
            raise


def unknown(what: str, name: str, known: Iterable[str], where: str) -> str:
    """Say that a name is not known, which ones are, and which one was probably meant."""
    names = list(known)
    meant = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"; did you mean {meant[0]!r}?" if meant else "."
    return (
        f"unknown {where} {what} {name!r}{hint} Known: {', '.join(names)}"
        if hint
        else (f"unknown {where} {what} {name!r}. Known: {', '.join(names)}")
    )


def expected_reasons(
    ids: Sequence[str],
    laws: Mapping[str, str],
    expected_failures: Mapping[str, Any],
    suite: str,
    known_laws: Sequence[str],
) -> dict[str, str]:
    """Map test ids to the reason for which each is expected to fail.

    ``laws`` maps each id to its law. A key of ``expected_failures`` is a law's name, a test id, or
    a glob over test ids such as ``"same_value_on_every_rank-*-cp2"``. A key that names nothing is a
    ValueError: an expectation that silently applies nowhere would hide a typing error.
    """
    reasons: dict[str, str] = {}
    for key, reason in expected_failures.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(
                f"expected_failures[{key!r}] needs a reason, such as an issue number; got {reason!r}"
            )
        hits = [i for i in ids if laws[i] == key or i == key or fnmatchcase(i, key)]
        if not hits:
            if key in known_laws:
                raise ValueError(
                    f"expected_failures names the {suite} law {key!r}, which is not among the tests "
                    "made here: it is left out by laws=, or does not apply to this function or "
                    "these worlds"
                )
            candidates = known_laws if not any(c in key for c in "-*?[") else [*known_laws, *ids]
            raise ValueError(unknown("law", key, candidates, suite))
        for hit in hits:
            reasons.setdefault(hit, reason)
    return reasons
