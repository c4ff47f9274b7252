"""Confounders: explain significant changes by recording, names, clocks or load instead of by the service."""
