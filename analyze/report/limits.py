"""Limits on the size of a report."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class ReportLimits(Config):
    """Maximum sizes of lists in a report; the tables in the lake are complete. A cut list says `shown of
    total`.
    """

    findings: int = Field(default=20, ge=1)
    """Maximum number of findings shown; the table has all."""
    drawn: int = Field(default=3, ge=0)
    """Number of findings, the first, whose example requests are drawn."""
    mutations: int = Field(default=500, ge=1)
    """Maximum number of mutations listed: half of them increases and half decreases, unless one kind has
    fewer.
    """
    detailed: int = Field(default=40, ge=0)
    """Maximum number of mutations with graphs and histograms: the best of each direction, half and half."""
    edges: int = Field(default=200, ge=1)
    """Maximum number of edges listed of a detailed mutation, changed ones first."""
    brief_edges: int = Field(default=40, ge=1)
    """Maximum number of changed edges listed of a mutation without details."""
    precursors: int = Field(default=10, ge=1)
    """Maximum number of candidate precursors listed of a mutation."""
    stored: int = Field(default=8, ge=1)
    """Maximum number of keys of stored categories listed of a mutation."""
    members: int = Field(default=8, ge=1)
    """Maximum number of categories listed of a finding, those with most requests."""
    categories: int = Field(default=500, ge=1)
    roots: int = Field(default=100, ge=1)
    graph_nodes: int = Field(default=600, ge=1)
    """Maximum number of nodes of a drawn graph, the first in canonical order."""
    canonical_chars: int = Field(default=4000, ge=80)
    """Length, in characters, at which canonical text is cut with `…`."""
    bins: int = Field(default=48, ge=4)
    edge_histograms: int = Field(default=3, ge=0)
    """Number of edges of a detailed mutation, those with the largest change, that have a histogram."""
    pictured: int = Field(default=3, ge=1)
    """Maximum number of findings in the picture at the top, the first ones."""
    picture_steps: int = Field(default=14, ge=1)
    """Maximum number of calls in the picture at the top."""
    picture_path: int = Field(default=5, ge=2)
    """Maximum number of calls on the path to a finding in the picture: the first of the request and the last
    ones.
    """
    picture_siblings: int = Field(default=3, ge=0)
    """Maximum number of siblings drawn at each call of the picture: changed calls first, then those with most
    time.
    """
