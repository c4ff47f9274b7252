"""Canonical order of the nodes of request-flow graphs, vectorised over a batch."""
