"""Sections of robust mode: what each says, as blocks."""
