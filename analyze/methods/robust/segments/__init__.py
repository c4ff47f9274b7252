"""Segments: requests with one attribute value, tested over many operations together."""
