"""Drawings as SVG: graphs, distributions, swim lanes."""
