"""Sections of robust mode's report: each is filled from a run, and converted to blocks for display."""
