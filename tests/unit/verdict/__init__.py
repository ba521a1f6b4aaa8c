"""Tests of the verdict: records by hand, no processes."""
