"""Explain significant changes by causes other than the service: recording, names, clocks, load."""
