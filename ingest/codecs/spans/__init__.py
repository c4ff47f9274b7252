"""Columns of a batch of spans, shared by all span formats, and their conversion to events."""
