"""Sections that methods share: one folder each, what it is like on the page and on a terminal."""
