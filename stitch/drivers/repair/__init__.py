"""Repair: late events become part of the windows they belong to, as a new generation."""
