"""Upkeep of a lake: retire old windows, compact windows, delete replaced files."""
