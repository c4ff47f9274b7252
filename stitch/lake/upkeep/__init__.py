"""Retire old windows of a lake, and rewrite windows."""
