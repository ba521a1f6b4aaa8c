"""What a whitening function is declared to do where honest implementations differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from harness.suites._laws import unknown

MASK_DTYPES = ("float32", "int64", "bool", "int32", "uint8", "float64", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The declared traits of a whitening function.

    Attributes:
        ddof: 1 if the variance divides by n − 1 (unbiased), 0 if by n, ``"auto"`` if either will
            do as long as it is the same one everywhere.
        eps: the small number that keeps the division finite.
        eps_place: ``"variance"`` for ``sqrt(var + eps)``, ``"std"`` for ``sqrt(var) + eps``,
            ``"clamp_variance"`` for ``sqrt(max(var, eps))``, ``"clamp_std"`` for
            ``max(sqrt(var), eps)``.
        shift_mean: True if the mean is taken off; False if values are only scaled;
            ``"added_back"`` if the mean is taken off before scaling and added again after it.
        masked_out: what comes out at a masked-out token: ``"affine"`` (the same shift and scale as
            everywhere), ``"zero"``, ``"unchanged"``, or ``"any"`` (not judged).
        all_masked: what a globally empty mask does: ``"raises"`` on every rank, or returns
            ``"unchanged"`` values, ``"zeros"`` or ``"nan"``, or ``"alike"`` (anything, as long as
            every rank does the same).
        one_token: what a single kept token does: it is whitened with a variance of ``"zero"``, or
            the function ``"raises"`` on every rank.
        scope: ``"group"`` if the statistics cover every token of the data-parallel × context-
            parallel group, ``"local"`` if they cover the samples of one data-parallel rank (all of
            its context-parallel ranks); the group handed to the function follows this.
        mask_dtypes: the dtypes a mask may have; every law but the one about dtypes uses the first.
    """

    ddof: Literal[0, 1, "auto"] = 1
    eps: float = 1e-8
    eps_place: Literal["variance", "std", "clamp_variance", "clamp_std"] = "variance"
    shift_mean: bool | Literal["added_back"] = True
    masked_out: Literal["affine", "zero", "unchanged", "any"] = "affine"
    all_masked: Literal["raises", "unchanged", "zeros", "nan", "alike"] = "raises"
    one_token: Literal["zero", "raises"] = "zero"
    scope: Literal["group", "local"] = "group"
    mask_dtypes: tuple[str, ...] = ("float32", "int64", "bool")

    def __post_init__(self) -> None:
        """Refuse a value that no trait has."""
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
                raise ValueError(
                    f"trait {name}={value!r}; it is one of {', '.join(map(repr, allowed))}"
                )
        eps: Any = self.eps
        if isinstance(eps, bool) or not isinstance(eps, int | float) or not eps >= 0:
            raise ValueError(f"trait eps={eps!r}; it is a number ≥ 0")
        dtypes: Any = self.mask_dtypes
        if not dtypes or isinstance(dtypes, str):
            raise ValueError(f"trait mask_dtypes={dtypes!r}; it is a list of dtype names")
        object.__setattr__(self, "mask_dtypes", tuple(self.mask_dtypes))
        for dtype in self.mask_dtypes:
            if dtype not in MASK_DTYPES:
                raise ValueError(unknown("dtype", str(dtype), MASK_DTYPES, "mask"))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Traits:
        """Make traits from keyword arguments; an unknown name is a TypeError with a hint."""
        known = [f.name for f in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(unknown("trait", name, known, "whitening"))
        return cls(**given)

    @property
    def ddofs(self) -> tuple[int, ...]:
        """The corrections that are allowed."""
        return (1, 0) if self.ddof == "auto" else (self.ddof,)


_ALLOWED: dict[str, tuple[Any, ...]] = {
    "ddof": (0, 1, "auto"),
    "eps_place": ("variance", "std", "clamp_variance", "clamp_std"),
    "shift_mean": (True, False, "added_back"),
    "masked_out": ("affine", "zero", "unchanged", "any"),
    "all_masked": ("raises", "unchanged", "zeros", "nan", "alike"),
    "one_token": ("zero", "raises"),
    "scope": ("group", "local"),
}
