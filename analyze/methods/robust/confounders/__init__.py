"""Explain significant changes by something else than the service: the recording, names, clocks, load."""
