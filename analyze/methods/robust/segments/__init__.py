"""Attribute segments: requests with one attribute value, or two, tested over all operations together."""
