"""Watching a lake: what changed since ordinary times, said once, and silence otherwise."""
