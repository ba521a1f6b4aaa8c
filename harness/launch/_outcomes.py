"""How a rank's function ended, told without importing pytest.

``pytest.skip``, ``xfail`` and ``fail`` raise classes of pytest's own; they are known here by name.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_HARNESS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNNING = (_HARNESS + "launch" + os.sep, _HARNESS + "record" + os.sep)

_OUTCOMES = {"Skipped": "skipped", "XFailed": "xfailed", "Failed": "failed"}

LONGEST_MESSAGE = 20_000


def outcome(error: BaseException) -> str:
    """``"skipped"``, ``"xfailed"``, ``"failed"`` for pytest's outcomes, else ``"raised"``."""
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(error).__mro__}
    if "unittest.case.SkipTest" in names:
        return "skipped"
    if "_pytest.outcomes.OutcomeException" in names:
        # pytest gives its outcomes the module "builtins", so that they print without one.
        for cls in type(error).__mro__:
            if cls.__name__ in _OUTCOMES:
                return _OUTCOMES[cls.__name__]
    return "raised"


def message_of(error: BaseException) -> str:
    """The exception's text; pytest's outcomes keep theirs in ``msg``."""
    text = getattr(error, "msg", None) if outcome(error) != "raised" else None
    try:
        return (text if isinstance(text, str) else str(error))[:LONGEST_MESSAGE]
    except Exception as broken:
        return f"<its text cannot be had: {type(broken).__name__}>"


def users_traceback(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of this package that called the user's function."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_RUNNING):
        trace = trace.tb_next
    return trace


def traceback_text(error: BaseException) -> str:
    """The exception with its causes as Python prints it, from the user's function on."""
    try:
        shown = traceback.TracebackException(type(error), error, users_traceback(error))
        text = "".join(shown.format())
    except Exception as broken:
        text = f"{type(error).__name__} (its traceback cannot be shown: {broken!r})\n"
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = (
            f"{text[:half]}\n… {len(text) - LONGEST_MESSAGE} characters left out …\n{text[-half:]}"
        )
    return text


def users_frames(error: BaseException, is_users: object) -> tuple[tuple[str, int, str], ...]:
    """File, line and function of the user's frames, innermost first."""
    assert callable(is_users)
    frames = []
    trace = users_traceback(error)
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            frames.append((code.co_filename, trace.tb_lineno, code.co_qualname))
        trace = trace.tb_next
    return tuple(reversed(frames))
