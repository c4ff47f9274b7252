"""Sections of paper mode: what each says, as blocks."""
