"""Reports: findings as text for the terminal and as data for everything else."""

from harness.report._data import as_data
from harness.report._run import Run
from harness.report._text import render

__all__ = ["Run", "as_data", "render"]
