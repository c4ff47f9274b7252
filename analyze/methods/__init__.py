"""Analyses behind one port; one folder a method."""
