"""Observe everything that is tested at call sites: a row each in `registry`; large ones have a file."""
