"""What a newcomer has: torch and pytest, and nothing else that torch could use."""

from __future__ import annotations

import pytest


def test_values_are_checked_without_numpy(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch does not bring numpy along, so nothing here may need it."""
    blocked = pytester.mkdir("blocked")
    (blocked / "numpy").mkdir()
    (blocked / "numpy" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    pytester.makeini("[pytest]\naddopts = -p no:hypothesispytest -p no:cacheprovider")
    pytester.makepyfile(
        """
        import pytest
        import harness

        def checked(rank, shift):
            import torch
            value = torch.full((3,), float(rank) * shift)
            harness.expect("value", value, torch.ones(3) * rank * shift)
            harness.unchanged("value", value)
            harness.expect_same("value", value[1:], over="dp")
            harness.expect_same("conjugate", torch.view_as_complex(torch.ones(2, 2)).conj(), over="dp")

        def test_it(world):
            world(dp=2).run(checked, 0)
            with pytest.raises(harness.WorldError, match="values differ"):
                world(dp=2).run(checked, 1)
        """
    )
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)
