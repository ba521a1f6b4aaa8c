"""The laws of a logged KL: it is the KL, and nothing that comes after it can change it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.suites import _kl_reference as reference
from harness.suites._kl_rank import AdvantageFunction, Config, Fields, KlOutcome, call_configs
from harness.suites._laws import Laws
from harness.suites._numbers import close, to_float32
from harness.suites._rollout import RolloutSample
from harness.suites._worlds import Axes, WorldFactory, default_factory

LAWS: Laws[KlSession] = Laws("kl_aliasing")

ZeroCoef = Literal["computed", "zeros", "absent"]


@dataclass(frozen=True)
class KlSession:
    """A function under test, what is declared of it, and the world and settings to check it in."""

    fn: AdvantageFunction
    axes: Axes
    estimator: str
    kl_types: tuple[str, ...] = ("k1", "k2", "k3", "low_var_kl")
    kl_coefs: tuple[float, ...] = (0.0, 0.05)
    fields: Fields = field(
        default_factory=lambda: Fields(("kl",), ("advantages", "returns"), (), ())
    )
    kl_field: str = "kl"
    at_zero_coef: ZeroCoef = "computed"
    gamma: float = 1.0
    lambd: float = 1.0
    factory: WorldFactory | None = None

    @property
    def name(self) -> str:
        """What to call the function in a message."""
        return str(getattr(self.fn, "__qualname__", None) or repr(self.fn)).split(".<locals>.")[-1]

    def configs(self) -> list[Config]:
        """Every setting of this estimator."""
        return [
            Config(self.estimator, kl_type, coef, self.gamma, self.lambd)
            for kl_type in self.kl_types
            # Nonzero first: what fails at both is better explained by those numbers.
            for coef in sorted(self.kl_coefs, key=lambda each: each == 0)
        ]

    def run(self) -> list[KlOutcome]:
        """Call the function in every setting on every rank."""
        factory = self.factory or default_factory()
        with factory(**self.axes.given) as world:
            ranks: list[list[KlOutcome]] = world.run(
                call_configs,
                self.fn,
                samples(self.axes.dp),
                self.axes.dp,
                self.axes.cp,
                self.configs(),
                self.fields,
            )
        outcomes = [outcome for of_rank in ranks for outcome in of_rank]
        for outcome in outcomes:
            missing = [
                f
                for f in outcome.missing
                if not (
                    f == self.kl_field
                    and self.at_zero_coef == "absent"
                    and outcome.config.kl_coef == 0
                )
            ]
            if missing:
                raise AssertionError(
                    f"{self.name} neither put {', '.join(missing)} into the rollout nor returned "
                    f"it, on {outcome.label}\ndeclare the fields that it has with logged= and "
                    "returned="
                )
        return outcomes


def samples(dp: int) -> list[RolloutSample]:
    """Three samples for each data-parallel rank; the first of them is worked out by hand.

    Log-probabilities 0.5, 0.7, 0.9 against 0.4, 0.5, 0.6 have a k1 of 0.1, 0.2, 0.3. With a
    reward of 1 and kl_coef 0.05 an in-place bug leaves −0.005, −0.01, 0.985 in the log.
    """
    by_hand = RolloutSample(
        total=7,
        response=3,
        reward=1.0,
        mask=(1, 1, 1),
        log_probs=(0.5, 0.7, 0.9),
        ref_log_probs=(0.4, 0.5, 0.6),
        values=(0.0, 0.0, 0.0),
    )
    made = [by_hand] * dp
    for i in range(2 * dp):
        total, response = ((64, 48), (40, 12))[i % 2]
        made.append(
            RolloutSample(
                total=total,
                response=response,
                reward=(-0.5, 2.0)[i % 2],
                mask=tuple(int((i + j) % 7 != 3) for j in range(response)),
                log_probs=tuple(-1.0 - 0.5 * math.sin(0.9 * j + i) for j in range(response)),
                ref_log_probs=tuple(-1.1 - 0.4 * math.cos(0.7 * j + i) for j in range(response)),
                values=tuple(0.1 * math.sin(0.3 * j + i) for j in range(response)),
            )
        )
    return made


@LAWS.law()
def logged_kl_is_the_kl(session: KlSession) -> None:
    """After the call the logged KL is the declared estimate of the KL, computed apart.

    Catches another estimator than the configured one, a KL scaled by its coefficient, and the
    in-place bug: ``k *= -kl_coef; k[-1] += reward`` turns the KL that is being logged into the
    shaped reward, and it does so at kl_coef = 0 too.
    """
    everyone = samples(session.axes.dp)
    wrong: list[tuple[KlOutcome, str]] = []
    for outcome in session.run():
        if outcome.config.kl_coef == 0 and session.at_zero_coef == "absent":
            continue
        rows = outcome.logged[session.kl_field]
        if len(rows) != len(outcome.held):
            text = (
                f"{session.name} logs {len(rows)} tensors under {session.kl_field!r} for "
                f"{len(outcome.held)} samples, on {outcome.label}"
            )
            wrong.append((outcome, text))
            continue
        for index, positions, row in zip(outcome.samples, outcome.held, rows, strict=True):
            said = _wrong_kl(session, outcome, index, everyone[index], positions, row)
            if said:
                wrong.append((outcome, said))
    if wrong:
        first, text = wrong[0]
        raise AssertionError(text + _also(session, first, [outcome for outcome, _ in wrong]))


@LAWS.law()
def logged_fields_unchanged(session: KlSession) -> None:
    """From the moment it is put into the rollout, no declared logged field is written.

    Values and version counters are compared with those at that moment, entry by entry. Catches the
    in-place bug even where the numbers come out right by luck, such as a KL that is scaled for the
    penalty and scaled back, and a field that is later replaced by the shaped reward.
    """
    outcomes = session.run()
    for outcome in outcomes:
        if outcome.changed:
            also = _also(session, outcome, [o for o in outcomes if o.changed])
            raise AssertionError(
                f"{session.name} changes what it has logged, on {outcome.label}: "
                + "; ".join(outcome.changed[:3])
                + "\nlikely cause: an in-place operator (*=, +=, mul_) or an assignment to an "
                "element, on the tensor that was logged; work on a new tensor" + also
            )


@LAWS.law()
def returned_tensors_do_not_reach_logged_ones(session: KlSession) -> None:
    """An in-place write to a returned tensor does not reach a logged one, unless declared.

    Catches the KL handed on as a penalty, reward or return without a copy: it is right when the
    function returns, and is overwritten when the caller whitens or masks in place. Returned tensors
    may share memory with each other, as advantages and returns often do.
    """
    outcomes = session.run()
    for outcome in outcomes:
        if outcome.reached:
            also = _also(session, outcome, [o for o in outcomes if o.reached])
            raise AssertionError(
                f"{session.name} returns a tensor that shares memory with a logged one, on "
                f"{outcome.label}: "
                + "; ".join(outcome.reached[:3])
                + "\nreturn a copy, or declare it: shared=[(returned, logged)]"
                + also
            )


@LAWS.law()
def inputs_not_mutated(session: KlSession) -> None:
    """The caller's rollout entries are neither written nor replaced, unless declared.

    Catches a KL computed into the log-probabilities (``log_probs -= ref_log_probs``), which the
    policy loss needs afterwards, and rewards shaped in place, which are logged afterwards.
    """
    outcomes = session.run()
    for outcome in outcomes:
        if outcome.mutated:
            also = _also(session, outcome, [o for o in outcomes if o.mutated])
            raise AssertionError(
                f"{session.name} writes to its input, on {outcome.label}: "
                + "; ".join(outcome.mutated[:3])
                + "\nwork on a copy, or declare it: mutates=[name of the entry]"
                + also
            )


def _also(session: KlSession, first: KlOutcome, broken: Sequence[KlOutcome]) -> str:
    """Name the other settings in which the same happens."""
    hit = {o.config for o in broken}
    if len(hit) == len(session.configs()) > 1:
        return "\nthe same with every KL type and coefficient"
    others = [f"{c.kl_type} at kl_coef={c.kl_coef:g}" for c in session.configs() if c in hit]
    others.remove(f"{first.config.kl_type} at kl_coef={first.config.kl_coef:g}")
    return f"\nthe same with {', '.join(others)}" if others else ""


def _wrong_kl(
    session: KlSession,
    outcome: KlOutcome,
    index: int,
    sample: RolloutSample,
    positions: Sequence[int],
    row: Sequence[float],
) -> str:
    """Say what is wrong with the KL logged for one sample on one rank, or nothing."""
    config = outcome.config
    p = [to_float32(sample.log_probs[j]) for j in positions]
    q = [to_float32(sample.ref_log_probs[j]) for j in positions]
    right = reference.kl(config.kl_type, p, q)
    if config.kl_coef == 0 and session.at_zero_coef == "zeros":
        right = [0.0] * len(right)
    if len(row) == len(right) and all(
        close(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(row, right, strict=True)
    ):
        return ""
    shown, wanted = (_figures(x) for x in (row, right))
    guess = _diagnose(session, config, sample, positions, row, p, q)
    return (
        f"{session.name} logs {shown} as the KL where {config.kl_type} is {wanted}: sample {index} "
        f"(total {sample.total}, response {sample.response}), on {outcome.label}"
        + (f"\nlikely cause: {guess}" if guess else "")
    )


def _diagnose(
    session: KlSession,
    config: Config,
    sample: RolloutSample,
    positions: Sequence[int],
    row: Sequence[float],
    p: Sequence[float],
    q: Sequence[float],
) -> str:
    """Find the known mistake whose numbers are these, or return an empty text."""
    right = reference.kl(config.kl_type, p, q)
    if len(row) != len(right):
        return f"{len(row)} entries for the {len(right)} tokens that this rank holds"

    def is_row(numbers: Sequence[float]) -> bool:
        return all(close(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(row, numbers, strict=True))

    if config.kl_coef == 0 and is_row([0.0] * len(row)):
        return "no KL is computed at kl_coef=0: declare at_zero_coef='zeros' if that is meant"
    for scale, how in ((-config.kl_coef, "−kl_coef"), (config.kl_coef, "kl_coef")):
        shaped = [scale * k for k in right]
        if is_row(shaped):
            return f"the logged KL was multiplied by {how}"
        if shaped and is_row([*shaped[:-1], shaped[-1] + sample.reward]):
            return (
                "this is the shaped reward: the logged KL was multiplied by "
                f"{how} and the reward added to its last token, in place"
            )
    for other in reference.ESTIMATES:
        if is_row(reference.kl(other, p, q)):
            return f"this is {other}"
        if is_row(reference.kl(other, q, p)):
            return f"this is {other} with policy and reference exchanged"
    if is_row([k * sample.mask[j] for k, j in zip(right, positions, strict=True)]):
        return "the loss mask was multiplied in"
    return ""


def _figures(row: Sequence[float]) -> str:
    dots = ", …" if len(row) > 4 else ""
    return "[" + ", ".join(f"{x:.6g}" for x in row[:4]) + dots + "]"
