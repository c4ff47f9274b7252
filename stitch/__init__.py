"""Stitch records into flows and store them in a lake: kernel, lake, drivers."""
