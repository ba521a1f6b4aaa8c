"""The laws of a logged KL in a function that computes advantages and returns.

Hand over your function and get one test for each law, estimator and world::

    from harness.suites import kl_aliasing

    @kl_aliasing.parametrize(my_advantages, estimators=["grpo", "ppo"], worlds=[(1, 1), (1, 2)])
    def test_kl(check):
        check()

``my_advantages(rollout, config)`` is called on every rank, for each KL estimate and coefficient,
with that rank's share of a rollout and a ``Config`` (estimator, kl_type, kl_coef, gamma, lambd). It
puts its results into the rollout, or returns a dict of them, or both. Log under the same rollout
where you can: what is put into *it* is watched from that moment on.

The rollout is a dict of lists with one entry for each of this rank's samples:

=====================  ============================================================
``total_lengths``      int, prompt and response together
``response_lengths``   int
``rewards``            float, one for the whole sample
``loss_masks``         int64 tensor, the *whole* response
``log_probs``          float32 tensor, the response tokens that this rank holds
``ref_log_probs``      likewise
``values``             likewise
=====================  ============================================================

Which tokens a rank holds is what ``zigzag_slices`` says; samples are dealt round-robin.
Everything also works without pytest: ``check_law`` and ``check_all``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from harness.suites._kl_laws import LAWS, KlSession, ZeroCoef
from harness.suites._kl_rank import AdvantageFunction, Config, Fields
from harness.suites._kl_reference import ESTIMATES
from harness.suites._laws import unknown
from harness.suites._parametrize import NamedCheck, parametrize_checks
from harness.suites._worlds import Axes, WorldFactory, WorldSpec

__all__ = ["ESTIMATORS", "KL_TYPES", "Config", "check_all", "check_law", "laws", "parametrize"]

F = TypeVar("F", bound=Callable[..., Any])

ESTIMATORS = (
    "grpo",
    "gspo",
    "cispo",
    "ppo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
)
"""The estimators that are used when none are named; any other name is passed on as it is."""

KL_TYPES = tuple(ESTIMATES)


def laws() -> dict[str, str]:
    """Return every law's name with what it says and the bug it catches."""
    return LAWS.docs()


def check_law(
    name: str,
    fn: AdvantageFunction,
    estimator: str,
    world: WorldSpec = (1, 1),
    *,
    world_factory: WorldFactory | None = None,
    **declared: Any,
) -> None:
    """Check one law for one estimator in one world, without pytest.

    ``declared`` takes what ``parametrize`` takes: kl_types, kl_coefs, logged, returned, shared,
    mutates, kl_field, at_zero_coef, gamma, lambd. Raises AssertionError if the law is broken (a
    ``harness.WorldError`` if a collective is), ValueError if the law is unknown.
    """
    __tracebackhide__ = True
    LAWS.verify(name, _session(fn, estimator, world, world_factory, **declared))


def check_all(
    fn: AdvantageFunction,
    estimators: Iterable[str] = ESTIMATORS,
    worlds: Iterable[WorldSpec] = ((1, 1),),
    *,
    laws: Iterable[str] | None = None,
    world_factory: WorldFactory | None = None,
    **declared: Any,
) -> dict[str, AssertionError]:
    """Check laws for estimators in worlds, without pytest; return what broke, by test id."""
    broken = {}
    for named in _checks(fn, estimators, worlds, laws, world_factory, declared):
        try:
            named.check()
        except AssertionError as error:
            broken[named.id] = error
    return broken


def parametrize(
    fn: AdvantageFunction,
    estimators: Sequence[str] = ESTIMATORS,
    worlds: Sequence[WorldSpec] = ((1, 1),),
    *,
    kl_types: Sequence[str] = KL_TYPES,
    kl_coefs: Sequence[float] = (0.0, 0.05),
    logged: Sequence[str] = ("kl",),
    returned: Sequence[str] = ("advantages", "returns"),
    shared: Sequence[tuple[str, str]] = (),
    mutates: Sequence[str] = (),
    kl_field: str = "kl",
    at_zero_coef: ZeroCoef = "computed",
    gamma: float = 1.0,
    lambd: float = 1.0,
    expected_failures: Mapping[str, str] | None = None,
    laws: Iterable[str] | None = None,
    world_factory: WorldFactory | None = None,
) -> Callable[[F], F]:
    """Give a test function one ``check`` for each law, estimator and world; the test calls it.

    Test ids are ``law-estimator-world``, such as ``logged_kl_is_the_kl-ppo-dp1-cp1``; every KL
    type and coefficient is tried within one test.

    Args:
        fn: the function under test, see the module's docstring.
        estimators: names passed on in ``config.estimator``.
        worlds: ``(dp, cp)`` pairs or mappings of axes.
        kl_types: names passed on in ``config.kl_type``; the suite knows k1, k2, k3 and low_var_kl.
        kl_coefs: coefficients passed on in ``config.kl_coef``.
        logged: the result's fields that are logged, the KL among them.
        returned: the result's fields that later code may write to.
        shared: pairs (returned, logged) that are allowed to share memory.
        mutates: the rollout's entries that the function is allowed to write.
        kl_field: which of the logged fields is the KL.
        at_zero_coef: what is logged at kl_coef = 0: the KL all the same (``"computed"``),
            ``"zeros"``, or the field is ``"absent"``.
        gamma: discount passed on.
        lambd: GAE parameter passed on.
        expected_failures: a law, a test id or a glob over test ids (``"*-ppo-*"``), with the
            reason; such a test is a strict xfail. An unknown law is a ValueError.
        laws: limits the laws.
        world_factory: what makes the worlds; ``harness.World`` if None.
    """
    declared = {
        "kl_types": kl_types,
        "kl_coefs": kl_coefs,
        "logged": logged,
        "returned": returned,
        "shared": shared,
        "mutates": mutates,
        "kl_field": kl_field,
        "at_zero_coef": at_zero_coef,
        "gamma": gamma,
        "lambd": lambd,
    }
    return parametrize_checks(
        _checks(fn, estimators, worlds, laws, world_factory, declared),
        expected_failures=expected_failures or {},
        suite="kl_aliasing",
        known_laws=list(LAWS.docs()),
    )


def _session(
    fn: AdvantageFunction,
    estimator: str,
    world: WorldSpec,
    factory: WorldFactory | None,
    *,
    kl_types: Sequence[str] = KL_TYPES,
    kl_coefs: Sequence[float] = (0.0, 0.05),
    logged: Sequence[str] = ("kl",),
    returned: Sequence[str] = ("advantages", "returns"),
    shared: Sequence[tuple[str, str]] = (),
    mutates: Sequence[str] = (),
    kl_field: str = "kl",
    at_zero_coef: ZeroCoef = "computed",
    gamma: float = 1.0,
    lambd: float = 1.0,
) -> KlSession:
    if not callable(fn):
        raise TypeError(f"the function to check must be callable, not {fn!r}")
    for what, names in (
        ("kl_types", kl_types),
        ("logged", logged),
        ("returned", returned),
        ("mutates", mutates),
    ):
        if isinstance(names, str):
            raise TypeError(f"{what}={names!r}: pass a list of names, such as {what}=[{names!r}]")
    for kl_type in kl_types:
        if kl_type not in KL_TYPES:
            raise ValueError(unknown("KL type", kl_type, KL_TYPES, "kl_aliasing"))
    if kl_field not in logged:
        raise ValueError(f"kl_field={kl_field!r} is not among the logged fields {list(logged)}")
    if at_zero_coef not in ("computed", "zeros", "absent"):
        raise ValueError(
            f"at_zero_coef={at_zero_coef!r}; it is one of 'computed', 'zeros', 'absent'"
        )
    if not kl_types or not kl_coefs:
        raise ValueError("kl_types and kl_coefs need at least one entry each")
    return KlSession(
        fn=fn,
        axes=Axes.of(world),
        estimator=estimator,
        kl_types=tuple(kl_types),
        kl_coefs=tuple(kl_coefs),
        fields=Fields(
            tuple(logged), tuple(returned), tuple(mutates), tuple((a, b) for a, b in shared)
        ),
        kl_field=kl_field,
        at_zero_coef=at_zero_coef,
        gamma=gamma,
        lambd=lambd,
        factory=factory,
    )


def _checks(
    fn: AdvantageFunction,
    estimators: Iterable[str],
    worlds: Iterable[WorldSpec],
    names: Iterable[str] | None,
    factory: WorldFactory | None,
    declared: Mapping[str, Any],
) -> list[NamedCheck]:
    if isinstance(estimators, str):
        raise TypeError(f"estimators={estimators!r}: pass a list, such as [{estimators!r}]")
    specs = list(worlds)
    sessions = [_session(fn, e, w, factory, **declared) for e in estimators for w in specs]
    if not sessions:
        raise ValueError("no estimators or no worlds are named: there is nothing to check")
    return [
        NamedCheck(
            f"{law.name}-{s.estimator}-{s.axes.id}",
            law.name,
            lambda law=law, s=s: LAWS.run(law, s),  # type: ignore[misc]
        )
        for law in LAWS.choose(names)
        for s in sessions
    ]
