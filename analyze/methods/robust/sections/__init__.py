"""Sections of robust mode, as blocks."""
