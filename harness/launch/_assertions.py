"""pytest's rich comparison text (``At index 1 diff: 2 != 3``) for asserts that fail in a rank.

The rewritten asserts of a test module come along with the function; the comparison text comes
from a hook that pytest sets up around each test, and a rank runs outside any test. Here the same
hook is asked, through a `Config` made when the first assert fails. Nothing here imports pytest:
where the code under test has not brought it along, there is nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any


def enrich_comparisons(verbosity: int) -> None:
    """Let rewritten asserts in this process explain comparisons as they do under pytest."""
    util: Any = sys.modules.get("_pytest.assertion.util")
    if util is not None and hasattr(util, "_reprcompare"):
        util._reprcompare = _Comparison(verbosity)


class _Comparison:
    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._config: Any = None

    def __call__(self, op: str, left: object, right: object) -> str | None:
        with contextlib.suppress(Exception):
            for lines in self._hook()(config=self._config, op=op, left=left, right=right):
                if lines:
                    text = "\n~".join(line.replace("\n", "\\n") for line in lines)
                    return text.replace("%", "%%")
        return None

    def _hook(self) -> Any:
        if self._config is None:
            pytest = sys.modules["pytest"]
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            os.environ.pop("PYTEST_ADDOPTS", None)
            os.environ.pop("PYTEST_PLUGINS", None)
            arguments = ["-c", os.devnull, "-p", "no:cacheprovider", "--color=no"]
            verbose = ["-" + "v" * self._verbosity] if self._verbosity else []
            self._config = pytest.Config.fromdictargs({}, [*arguments, *verbose])
        return self._config.hook.pytest_assertrepr_compare
