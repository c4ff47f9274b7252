"""Mutations, precursors and their ranking."""
