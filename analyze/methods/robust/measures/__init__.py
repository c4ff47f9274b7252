"""Quantities tested at call sites: `registry` lists all measures, the other modules compute the large
ones."""
