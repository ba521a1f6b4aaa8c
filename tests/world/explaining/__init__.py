"""Tests of the second run on real ranks."""
