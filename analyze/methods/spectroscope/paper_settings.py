"""Settings of a comparison: what is tested, how it is ranked, and how much of it a report shows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config

Variant = Literal["text", "released"]
Distance = Literal["raw", "normalized"]
Ranking = Literal["nsdi", "tr"]


class PaperSettings(Config):
    """Paper mode: Spectroscope as its text says, or as its released source does (B.1, B.1b, C.1)."""

    variant: Variant = "text"
    sm_threshold: int = Field(default=50, ge=1)
    """Change of a category's raw request count that makes it a structural mutation or a precursor."""
    alpha: float = Field(default=0.05, ge=0, le=1)
    """A KS test rejects at p < alpha; no correction for the number of tests, as published."""
    min_requests: int = Field(default=10, ge=1)
    """`text`: a test needs more than this many values in both periods (the papers' large categories)."""
    one_to_n: bool = True
    """A candidate precursor must have lost at least as many requests as the mutation gained."""
    distance: Distance | None = None
    """Edit distance, plain or over the longer sequence; None: as the ranking's paper (NSDI raw, TR
    normalized), normalized in `released`."""
    ranking: Ranking = "nsdi"
    """Whose formula orders the mutations (C.7)."""

    @property
    def resolved_distance(self) -> Distance:
        """The distance in force."""
        if self.distance is not None:
            return self.distance
        return "raw" if self.variant == "text" and self.ranking == "nsdi" else "normalized"


class ReportLimits(Config):
    """Bounds of the report model; the tables in the lake are complete. What is cut says `shown of total`."""

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
    categories: int = Field(default=500, ge=1)
    roots: int = Field(default=100, ge=1)
    graph_nodes: int = Field(default=600, ge=1)
    """Nodes of a drawn graph: the first in canonical order."""
    canonical_chars: int = Field(default=4000, ge=80)
    """Canonical text is cut here, with `…`."""
    bins: int = Field(default=48, ge=4)
    edge_histograms: int = Field(default=3, ge=0)
    """Reddest edges of a detailed mutation that carry a histogram."""
