"""Confounders: significant changes that recording, names, clocks or load explain, instead of the service."""
