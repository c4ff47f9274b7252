"""Stitch records into flows and keep them in a lake: the kernel, the lake writer, the drivers."""
