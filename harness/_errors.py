"""The error that a world raises, and the warning that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.verdict import Finding

if TYPE_CHECKING:
    from harness.report import Run


class WorldError(AssertionError):
    """A world's function misused a collective, failed on a rank, or ran past the deadline.

    The first line of the text is the verdict; ``findings`` are the same as data, the cause first.
    ``exceptions`` holds, by rank, what the rank raised, where it could be sent over. ``stacks``
    holds, by rank, faulthandler's text for the ranks that still ran at the deadline. ``output``
    holds what each rank printed and logged. ``seconds_to_verdict`` is the time from the last thing
    any rank did to the verdict. ``run`` is all that reports know of the run.
    """

    __module__ = "harness"

    def __init__(
        self,
        text: str,
        findings: Sequence[Finding] = (),
        *,
        exceptions: dict[int, BaseException] | None = None,
        stacks: dict[int, str] | None = None,
        output: Sequence[dict[str, str]] = (),
        seconds_to_verdict: float = 0.0,
        run: Run | None = None,
    ) -> None:
        super().__init__(text)
        self.findings = tuple(findings)
        self.exceptions = exceptions or {}
        self.stacks = stacks or {}
        self.output = tuple(output)
        self.seconds_to_verdict = seconds_to_verdict
        self.run = run


class WorldWarning(UserWarning):
    """A suspicion that could not be proved, or something that the recorder cannot see.

    ``findings`` are the suspicion as data.
    """

    __module__ = "harness"

    def __init__(self, text: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(text)
        self.findings = tuple(findings)
