"""Repair windows: late events become part of those they belong to, as a new generation."""
