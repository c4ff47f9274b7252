"""Renderers of a finished comparison: JSON, terminal, HTML."""
