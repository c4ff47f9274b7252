"""Robust mode: sites, local shapes, calibrated tests, few findings (ALGORITHMS L)."""
