"""Upkeep of a lake: retire old windows, compact windows, delete files that were replaced."""
