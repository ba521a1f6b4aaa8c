"""Tests of the explainer, on functions that are followed in this process."""
