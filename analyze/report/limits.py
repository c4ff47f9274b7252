"""Limits on the size of a report."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class ReportLimits(Config):
    """Maximum sizes of lists in a report; the tables in the lake are complete. A cut list says `shown of
    total`.
    """

    findings: int = Field(default=20, ge=1)
    """Findings shown; the table has all."""
    drawn: int = Field(default=3, ge=0)
    """First findings whose example requests are drawn."""
    mutations: int = Field(default=500, ge=1)
    """Mutations listed: half of them increases, half decreases, unless there are fewer of one."""
    detailed: int = Field(default=40, ge=0)
    """Mutations that carry graphs and histograms, the best of each direction, halved likewise."""
    edges: int = Field(default=200, ge=1)
    """Edges listed a detailed mutation; changed ones first."""
    brief_edges: int = Field(default=40, ge=1)
    """Edges listed a mutation that is not detailed: changed ones only."""
    precursors: int = Field(default=10, ge=1)
    """Candidate precursors listed a mutation."""
    stored: int = Field(default=8, ge=1)
    """Keys of stored categories listed a mutation."""
    members: int = Field(default=8, ge=1)
    """Categories listed a finding, those of most requests."""
    categories: int = Field(default=500, ge=1)
    roots: int = Field(default=100, ge=1)
    graph_nodes: int = Field(default=600, ge=1)
    """Nodes of a drawn graph: the first in canonical order."""
    canonical_chars: int = Field(default=4000, ge=80)
    """Canonical text is cut here, with `…`."""
    bins: int = Field(default=48, ge=4)
    edge_histograms: int = Field(default=3, ge=0)
    """Reddest edges of a detailed mutation that carry a histogram."""
    pictured: int = Field(default=3, ge=1)
    """First findings that the picture at the top shows, as far as there is room."""
    picture_steps: int = Field(default=14, ge=1)
    """Calls in that picture."""
    picture_path: int = Field(default=5, ge=2)
    """Calls on the way to a finding: the first of the request and the last ones."""
    picture_siblings: int = Field(default=3, ge=0)
    """Other calls at each of them: what changed first, then what takes most time."""
