"""Sections of the report of robust mode: filled from a run, and converted to blocks for display."""
