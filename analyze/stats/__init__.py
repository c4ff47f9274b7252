"""Compute statistics on arrays, purely."""
