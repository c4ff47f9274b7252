"""Renderers of a finished comparison: JSON, terminal, Markdown, HTML."""
