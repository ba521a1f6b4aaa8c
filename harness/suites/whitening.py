"""The laws of whitening: masked values made zero-mean and unit-variance over many ranks.

Hand over your function and get one test for each law and world::

    from harness.suites import whitening

    @whitening.parametrize(my_whiten, worlds=[(1, 1), (2, 1), (1, 2), (2, 2)], ddof=1)
    def test_whitening(check):
        check()

``my_whiten(values, mask, group)`` is called on every rank with that rank's response tokens, all
samples one after another in one 1-D tensor, a mask of the same length, and the process group of
the data-parallel × context-parallel ranks; it returns a tensor of the same length. Wrap another
shape of function with ``per_sample`` or ``rollout``. If your code picks the group itself, let it:
``lambda values, mask, group: my_whiten(values, mask, mpu.get_data_parallel_group())``.

What honest implementations do differently is declared with keyword arguments, the *traits*: see
``Traits``. Everything also works without pytest: ``check_law`` and ``check_all``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from harness.suites._parametrize import NamedCheck, parametrize_checks
from harness.suites._traits import Traits
from harness.suites._whitening_laws import LAWS
from harness.suites._whitening_rank import Adapter
from harness.suites._whitening_session import Session
from harness.suites._worlds import Axes, WorldFactory, WorldSpec

__all__ = [
    "WORLDS",
    "Adapter",
    "Traits",
    "check_all",
    "check_law",
    "laws",
    "parametrize",
    "per_sample",
    "rollout",
]

F = TypeVar("F", bound=Callable[..., Any])

WORLDS: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (4, 1))
"""The worlds that are used when none are named: every (dp, cp) of up to four ranks."""


def per_sample(fn: Callable[..., Any]) -> Adapter:
    """Adapt ``fn(values, mask, group)`` that takes and returns lists, one tensor for each sample."""
    return Adapter(fn, "samples")


def rollout(fn: Callable[..., Any]) -> Adapter:
    """Adapt a whole ``compute_advantages_and_returns``: per-rank rollout in, advantages out.

    ``fn(rank, rollout)`` gets this rank's share as a dict with the keys that ``kl_aliasing``
    describes (rewards differ, log-probabilities equal the reference's, values are zero) and returns
    the whitened advantages, a list with one tensor for each sample of this rank, covering the
    tokens that the rank holds. Before whitening each token's advantage has to be the sample's
    reward, as it is for grpo; whitening has to be switched on. Laws that need values of their own
    for each token do not apply and make no test.
    """
    return Adapter(fn, "rollout")


def laws() -> dict[str, str]:
    """Return every law's name with what it says and the bug it catches."""
    return LAWS.docs()


def check_law(
    name: str,
    fn: Callable[..., Any] | Adapter,
    world: WorldSpec = (1, 1),
    *,
    world_factory: WorldFactory | None = None,
    **traits: Any,
) -> None:
    """Check one law in one world, without pytest.

    Raises AssertionError if the law is broken (a ``harness.WorldError`` if a collective is),
    ValueError if the law is unknown or has nothing to say of this function in this world.
    """
    __tracebackhide__ = True
    LAWS.verify(name, _session(fn, world, world_factory, traits))


def check_all(
    fn: Callable[..., Any] | Adapter,
    worlds: Iterable[WorldSpec] = WORLDS,
    *,
    laws: Iterable[str] | None = None,
    world_factory: WorldFactory | None = None,
    **traits: Any,
) -> dict[str, AssertionError]:
    """Check laws in worlds, without pytest; return what broke, by test id (empty: all is well)."""
    broken = {}
    for named in _checks(fn, worlds, laws, world_factory, traits):
        try:
            named.check()
        except AssertionError as error:
            broken[named.id] = error
    return broken


def parametrize(
    fn: Callable[..., Any] | Adapter,
    worlds: Sequence[WorldSpec] = WORLDS,
    *,
    expected_failures: Mapping[str, str] | None = None,
    laws: Iterable[str] | None = None,
    world_factory: WorldFactory | None = None,
    **traits: Any,
) -> Callable[[F], F]:
    """Give a test function one ``check`` for each law and world; the test calls it.

    Test ids are ``law-world``, such as ``rank_with_no_tokens-dp2-cp2``. ``laws`` limits the laws.
    ``expected_failures`` maps a law, a test id or a glob over test ids to the reason; such a test
    is a strict xfail, so that it speaks up once it passes. An unknown law is a ValueError.
    ``traits`` are those of ``Traits``.
    """
    return parametrize_checks(
        _checks(fn, worlds, laws, world_factory, traits),
        expected_failures=expected_failures or {},
        suite="whitening",
        known_laws=list(LAWS.docs()),
    )


def _session(
    fn: Callable[..., Any] | Adapter,
    world: WorldSpec,
    factory: WorldFactory | None,
    traits: Mapping[str, Any],
) -> Session:
    if not isinstance(fn, Adapter) and not callable(fn):
        raise TypeError(f"the function to check must be callable, not {fn!r}")
    adapter = fn if isinstance(fn, Adapter) else Adapter(fn)
    return Session(adapter, Axes.of(world), Traits.of(traits), factory)


def _checks(
    fn: Callable[..., Any] | Adapter,
    worlds: Iterable[WorldSpec],
    names: Iterable[str] | None,
    factory: WorldFactory | None,
    traits: Mapping[str, Any],
) -> list[NamedCheck]:
    sessions = [_session(fn, world, factory, traits) for world in worlds]
    if not sessions:
        raise ValueError("worlds is empty: there is nothing to check in")
    return [
        NamedCheck(f"{law.name}-{s.axes.id}", law.name, lambda law=law, s=s: LAWS.run(law, s))  # type: ignore[misc]
        for law in LAWS.choose(names)
        for s in sessions
        if law.why_not(s) is None
    ]
