"""Measures at call sites, one row each in `registry`; large ones have separate files."""
