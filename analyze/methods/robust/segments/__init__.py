"""Segments: places to test that are a value of an attribute, pooled over operations."""
