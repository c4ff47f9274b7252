"""Canonical node order of request-flow graphs, vectorised over a batch."""
