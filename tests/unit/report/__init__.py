"""Tests of the reports: findings in, text and data out."""
