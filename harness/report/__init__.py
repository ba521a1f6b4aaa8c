"""Reports: findings as text for the terminal and as data for everything else."""

from harness.report._data import as_data
from harness.report._lines import Line
from harness.report._run import Run
from harness.report._text import WIDTH_IN_PYTEST, lines, render

__all__ = ["WIDTH_IN_PYTEST", "Line", "Run", "as_data", "lines", "render"]
