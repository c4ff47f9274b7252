"""Verdict on whole periods: whether anything changed, and how certain that is."""
