"""Stitch records and spans into flows and store them in a lake: kernel, lake, drivers."""
